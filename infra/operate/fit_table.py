"""`slipway fit --all`: every TPU stack's verdict in one table; `--judge`: estimates against published measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.operate import fit_ask
from infra.preview import cost, fit_cache, roofline
from infra.preview.fit_compile import Limits
from infra.preview.fit_question import Question, of_stack
from infra.preview.verdict import Verdict
from infra.settings import Settings, any_from_file, stack_names
from infra.targets.tpu_vm_settings import TpuVmSettings

_WIDE = 200  # columns where no terminal sets them
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rows:
    """`good`: nothing in it is missing or bad."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    good: bool

    def json(self) -> str:
        return json.dumps([dict(zip(self.columns, row, strict=True)) for row in self.rows], indent=1)

    def text(self) -> str:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in self.columns:
            table.add_column(title, no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console = Console(width=_WIDE, force_terminal=False, highlight=False)
        with console.capture() as captured:
            console.print(table)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


_COLUMNS = ("stack", "chips", "fits", "HBM", "HBM %", "step", "MFU", "bound", "$/1B tokens")


def all_stacks(limits: Limits, ship: bool) -> Rows:
    """Every stack with an accelerator; equal questions are asked once. `ship` writes what is committed."""
    stacks = [name for name in stack_names() if _is_asked(name)]
    found: list[tuple[str, Question, Verdict]] = []
    with _bar() as bar:
        task = bar.add_task("asking the TPU compiler", total=len(stacks))
        for name in stacks:
            question = of_stack(name, {})
            found.append(
                (name, question, fit_ask.answer(question, limits, lambda said: bar.update(task, description=said)))
            )
            bar.advance(task)
    if ship:
        _ship([verdict for _, _, verdict in found])
    return Rows(_COLUMNS, tuple(_row(*one) for one in found), all(verdict.fits for _, _, verdict in found))


def _is_asked(stack: str) -> bool:
    settings = any_from_file(stack)
    return isinstance(settings, Settings) and settings.row.platform != "cpu"


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _ship(verdicts: list[Verdict]) -> None:
    """Exactly these; what no stack asks any more goes."""
    kept = {fit_cache.keep(verdict, into=fit_cache.SHIPPED) for verdict in verdicts if verdict.fits}
    for path in fit_cache.SHIPPED.glob("*.json"):
        if path not in kept:
            path.unlink()


def _row(stack: str, question: Question, verdict: Verdict) -> tuple[str, ...]:
    chips = f"{question.row.chips * question.settings.slices:,}"
    fits = {True: "yes", False: "NO", None: _UNKNOWN}[verdict.fits]
    share = f"{verdict.share:.0%}" if verdict.share else _UNKNOWN
    memory = (
        f"{verdict.peak_gib:.2f} of {verdict.hbm_gib:.2f} GiB" if verdict.peak_gib and verdict.hbm_gib else _UNKNOWN
    )
    estimate = roofline.estimate(verdict, question.row, question.remat_policy)
    if estimate is None:
        return (stack, chips, fits, memory, share, *(_UNKNOWN for _ in _COLUMNS[5:]))
    price = _usd_per_hour(question)
    usd = roofline.usd_per_billion_tokens(estimate.step_s, question.spec.tokens_per_step, price)
    speed = (f"{estimate.step_s:.3g} s", f"{estimate.mfu:.0%}", estimate.bound)
    return (stack, chips, fits, memory, share, *speed, _UNKNOWN if usd is None else f"${usd:,.0f}")


def _usd_per_hour(question: Question) -> float | None:
    settings = question.settings
    return cost.of_stack(settings, question.spec).usd_per_hour if isinstance(settings, TpuVmSettings) else None


def judged(limits: Limits) -> Rows:
    raise NotImplementedError(limits)
