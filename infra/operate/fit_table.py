"""`slipway fit --all`: every TPU stack's verdict in one table; `--judge`: estimates against published measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from infra.operate import interactive_fit
from infra.preview import cost
from infra.preview.fit import cache, roofline
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
    stacks = [name for name in stack_names() if _is_asked(name)]
    rows: list[tuple[str, ...]] = []
    verdicts: list[FitVerdict] = []
    with _bar() as bar:
        task = bar.add_task("asking the TPU compiler", total=len(stacks))
        for name in stacks:
            step = of_stack(name, {})
            verdict = interactive_fit.answer(step, limits, lambda phase: bar.update(task, description=phase))
            verdicts.append(verdict)
            rows.append(_row(name, step, verdict))
            bar.advance(task)
    if ship:
        _ship(verdicts, cache.SHIPPED)
    return Rows(_COLUMNS, tuple(rows), all(verdict.fits for verdict in verdicts))


def _is_asked(stack: str) -> bool:
    settings = any_from_file(stack)
    return isinstance(settings, Settings) and settings.row.platform != "cpu"


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _ship(verdicts: list[FitVerdict], directory: Path) -> None:
    """Write these verdicts into the directory, and delete every other one that is there."""
    shipped = {cache.keep(verdict, into=directory) for verdict in verdicts if verdict.fits and not verdict.estimated}
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
    price = _usd_per_hour(step)
    usd = roofline.usd_per_billion_tokens(estimate.step_s, step.spec.tokens_per_step, price)
    speed = (f"{estimate.step_s:.3g} s", f"{estimate.mfu:.0%}", estimate.bound)
    return (stack, chips, fits, memory, share, *speed, _UNKNOWN if usd is None else f"at least ${usd:,.0f}")


def _usd_per_hour(step: TrainStep) -> float | None:
    if not isinstance(step.workload, Terms):
        return None
    return cost.of(step.workload, step.spec).usd_per_hour


_JUDGED = ("accelerator", "what", "TFLOP/s", "measured", "roofline", "error", "bound", "measured by")


def judged(limits: CompileLimits, ship: bool) -> Rows:
    """Predicted against measured step times. A roofline is never slower than what is measured, if it is right."""
    rows: list[tuple[str, ...]] = []
    verdicts: list[FitVerdict] = []
    with interactive_fit.shown() as show:
        for measured in MEASURED:
            step = measured.step
            verdicts.append(verdict := interactive_fit.answer(step, limits, show))
            rows.append(_judged_row(measured, step, verdict))
    if ship:
        _ship(verdicts, cache.JUDGED)
    return Rows(_JUDGED, tuple(rows), all(_UNKNOWN not in row for row in rows))


def _judged_row(measured: Measured, step: TrainStep, verdict: FitVerdict) -> tuple[str, ...]:
    fitting = replace(verdict, fits=verdict.fits or verdict.estimated)  # it ran, whatever an estimate of memory says
    estimate = roofline.estimate(fitting, step.row, step.remat_policy)
    speed = f"{measured.tflops:.0f}"
    if estimate is None:
        return (step.row.name, measured.title, speed, *(_UNKNOWN for _ in _JUDGED[4:]), measured.source)
    measured_s = estimate.tflops_per_device * step.row.devices_per_chip / measured.tflops
    times = (f"{measured_s:.3g} s", f"{estimate.step_s:.3g} s", f"{estimate.step_s / measured_s - 1:+.0%}")
    return (step.row.name, measured.title, speed, *times, estimate.bound, measured.source)
