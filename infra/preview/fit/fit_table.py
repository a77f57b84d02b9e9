"""`slipway fit --all`: every stack's verdict in one table; `--judge`: estimates against published measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from infra.preview import cost
from infra.preview.fit import cache, interactive_fit, roofline
from infra.preview.fit.compiler import CompileLimits
from infra.preview.fit.measurements import MEASURED, Measured
from infra.preview.fit.train_step import TrainStep, of_stack
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import Settings, any_from_file, stack_names
from infra.stack_file.terms import Terms

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rows:
    """`good`: nothing in it is missing or bad."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    good: bool

    def json(self) -> str:
        return json.dumps([dict(zip(self.columns, row, strict=True)) for row in self.rows], indent=1)


DISPENSABLE = ("bound", "MFU", "chips", "HBM", "TFLOP/s", "measured by")
_COLUMNS = ("stack", "chips", "fits", "HBM", "HBM %", "step", "MFU", "bound", "$/1B tokens")


def all_stacks(limits: CompileLimits, ship: bool) -> Rows:
    """Every stack with an accelerator; equal train steps are compiled once. `ship` writes what is committed."""
    stacks = {name: any_from_file(name) for name in stack_names()}
    asked = [name for name, each in stacks.items() if isinstance(each, Settings) and each.row.platform != "cpu"]
    steps = {name: of_stack(name, {}) for name in asked}
    verdicts: list[FitVerdict] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("asking the compiler", total=len(steps))
        for step in steps.values():
            verdicts.append(interactive_fit.answer(step, limits, lambda phase: bar.update(task, description=phase)))
            bar.advance(task)
    if ship:
        _ship([verdict for verdict in verdicts if verdict.fits], cache.SHIPPED)
    rows = tuple(map(_row, steps, steps.values(), verdicts))
    return Rows(_COLUMNS, rows, all(verdict.fits for verdict in verdicts))


def _ship(verdicts: list[FitVerdict], directory: Path) -> None:
    """Write these verdicts into the directory, and delete every other one that is there."""
    shipped = {cache.keep(verdict, into=directory) for verdict in verdicts}
    for path in directory.glob("*.json"):
        if path not in shipped:
            path.unlink()


def _row(stack: str, step: TrainStep, verdict: FitVerdict) -> tuple[str, ...]:
    chips = f"{step.workload.chips:,}"
    fits = {True: "yes", False: "NO", None: _UNKNOWN}[verdict.fits]
    share = f"{verdict.share:.0%}" if verdict.share else _UNKNOWN
    memory = (
        f"{verdict.peak_gib:.2f} of {verdict.hbm_gib:.2f} GiB" if verdict.peak_gib and verdict.hbm_gib else _UNKNOWN
    )
    estimate = roofline.estimate(verdict, step.row, step.remat_policy)
    if estimate is None:
        return (stack, chips, fits, memory, share, *(_UNKNOWN for _ in _COLUMNS[5:]))
    price = cost.of(step.workload, step.spec).usd_per_hour if isinstance(step.workload, Terms) else None
    usd = roofline.usd_per_billion_tokens(estimate.step_s, step.spec.tokens_per_step, price)
    speed = (f"{estimate.step_s:.3g} s", f"{estimate.mfu:.0%}", estimate.bound)
    return (stack, chips, fits, memory, share, *speed, _UNKNOWN if usd is None else f"at least ${usd:,.0f}")


_JUDGED = ("accelerator", "what", "TFLOP/s", "measured", "roofline", "error", "bound", "memory", "measured by")


def judged(limits: CompileLimits, ship: bool) -> Rows:
    """Predicted against measured step times. A roofline is never slower than what is measured, if it is right."""
    steps = [measured.step for measured in MEASURED]
    with interactive_fit.shown() as show:
        verdicts = [interactive_fit.answer(step, limits, show) for step in steps]
    if ship:
        _ship([verdict for verdict in verdicts if verdict.fits is not None], cache.JUDGED)
    rows = tuple(map(_judged_row, MEASURED, steps, verdicts))
    return Rows(_JUDGED, rows, all(_UNKNOWN not in row for row in rows))


def _judged_row(measured: Measured, step: TrainStep, verdict: FitVerdict) -> tuple[str, ...]:
    ran = replace(verdict, fits=True)  # whatever share of the memory it was given
    estimate = roofline.estimate(ran, step.row, step.remat_policy)
    speed = f"{measured.tflops:.0f}"
    memory = _memory_error(measured, verdict)
    if estimate is None:
        return (step.row.name, measured.title, speed, *(_UNKNOWN for _ in _JUDGED[4:-1]), memory, measured.source)
    measured_s = estimate.tflops_per_device * step.row.devices_per_chip / measured.tflops
    times = (f"{measured_s:.3g} s", f"{estimate.step_s:.3g} s", f"{estimate.step_s / measured_s - 1:+.0%}")
    return (step.row.name, measured.title, speed, *times, estimate.bound, memory, measured.source)


def _memory_error(measured: Measured, verdict: FitVerdict) -> str:
    """What the compiler says of memory against what a card had in use at most; empty where nobody measured that."""
    if measured.peak_gib is None:
        return ""
    if verdict.peak_gib is None:
        return _UNKNOWN
    return f"{verdict.peak_gib:.1f} of {measured.peak_gib:.1f} GiB ({verdict.peak_gib / measured.peak_gib - 1:+.1%})"
