"""Which step of a run went bad: its loss or a norm is no number, or its loss is far above what was usual. Pure.

Reads lines of `metrics/host-N.jsonl`, whose steps count from 0 as the names of checkpoints do: checkpoint 7 is the
state after step 7, and `param_norm` of step 7 is of that state, but its loss is of the one before, checkpoint 6. Owns
the judgement, and which checkpoints it spoils. Refuses to own the record (training/step_record.py), and what follows:
training/trainer.py ends the training, and moves those checkpoints away before the next one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.step_record import newest_steps, read_record

USUAL_OF, _FEWEST = 64, 8  # losses before a step, whose median is what is usual; of fewer nothing is
_NAMES = {"learning/loss": "loss", "learning/grad_norm": "gradient norm", "learning/param_norm": "parameter norm"}


@dataclass(frozen=True)
class Bounds:
    """What a step is held to. numbers: keys that have to be finite. spike: factor of the usual loss; None: no bound."""

    numbers: tuple[str, ...] = tuple(_NAMES)
    spike: float | None = None


FINITE = Bounds()


@dataclass(frozen=True)
class BadStep:
    """`spoiled`: the first checkpoint that is not known to be good. `usual`: the median of the losses before it."""

    step: int
    quantity: str
    value: float
    usual: float | None
    spoiled: int

    @staticmethod
    def of(said: Mapping[str, Any] | None) -> BadStep | None:
        """From what `asdict` makes of one, on its way between processes; None of none."""
        return BadStep(**said) if said else None

    def __str__(self) -> str:
        usual = f" (the loss was usually {self.usual:.4g})" if self.usual is not None else ""
        return f"the {self.quantity} of step {self.step} is {self.value:.4g}{usual}"


def bounds(maxtext: Mapping[str, Any], spike: float | None) -> Bounds:
    """Where MaxText was told to go on whatever the loss is, no number is judged; where it skips steps, no gradient."""
    if not (maxtext.get("abort_on_nan_loss", True) and maxtext.get("abort_on_inf_loss", True)):
        return Bounds((), spike)
    skips = maxtext.get("skip_step_on_spikes", False)
    return Bounds(tuple(key for key in _NAMES if not (skips and key == "learning/grad_norm")), spike)


class LossJudge:
    """Told each training step in the order of the record; `bad` is the first bad one that still counts.

    A step that is done again makes all before void that came at it or after it: the run had gone back behind them. One
    from which a run has gone on for long is not bad any more: a bound that is set later takes no checkpoints back.
    """

    def __init__(self, held_to: Bounds) -> None:
        self.bad: BadStep | None = None
        self._bounds = held_to
        self._losses: list[tuple[int, float]] = []  # of the steps that count
        self._bad_steps: list[int] = []  # of those that count, from `bad` on
        self._began = False  # from then on no step is done again

    def begin_at(self, step: int) -> None:
        """A start does this step first; how the steps before it were judged is settled."""
        self._go_back(step)
        self._forgive()
        self._began = True

    def lines(self, lines: Iterable[Mapping[str, Any]]) -> None:
        for line in lines:
            if "learning/loss" in line:
                self._step(int(line["step"]), line)

    def _step(self, step: int, line: Mapping[str, Any]) -> None:
        self._go_back(step)
        if found := self._judged(step, line):
            self.bad = self.bad or found
            self._bad_steps.append(step)
        elif self._bad_steps and not self._began and step - self._bad_steps[-1] >= USUAL_OF:
            self._forgive()
        self._losses.append((step, line["learning/loss"]))
        if self._began:
            del self._losses[:-USUAL_OF]

    def _go_back(self, step: int) -> None:
        while self._losses and self._losses[-1][0] >= step:
            self._losses.pop()
        while self._bad_steps and self._bad_steps[-1] >= step:
            self._bad_steps.pop()
        if not self._bad_steps:
            self.bad = None

    def _forgive(self) -> None:
        self.bad = None
        self._bad_steps.clear()

    def _judged(self, step: int, line: Mapping[str, Any]) -> BadStep | None:
        for key in self._bounds.numbers:
            if key in line and not math.isfinite(line[key]):
                return self._bad(step, _NAMES[key], line[key])
        if self._bounds.spike is None or len(before := self._before()) < _FEWEST:
            return None
        loss = line["learning/loss"]
        return self._bad(step, "loss", loss) if loss > self._bounds.spike * statistics.median(before) else None

    def _bad(self, step: int, quantity: str, value: float) -> BadStep:
        before = self._before()
        follows = bool(self._losses) and self._losses[-1][0] == step - 1
        # The step before may have spoiled what gave this loss, and of a checkpoint without a record nothing is known.
        good_before = follows and quantity != _NAMES["learning/loss"]
        spoiled = step if good_before or step == 0 else step - 1
        return BadStep(step, quantity, value, statistics.median(before) if before else None, spoiled)

    def _before(self) -> list[float]:
        return [loss for _, loss in self._losses[-USUAL_OF:] if math.isfinite(loss)]


def bad_step_of(record: Path, held_to: Bounds) -> BadStep | None:
    """`first_bad` of a record's file, most of which need not be read: long after a bad step that one counts no more."""
    if first_bad(newest_steps(record, 2 * USUAL_OF), held_to) is None:
        return None
    return first_bad(read_record(record), held_to)


def first_bad(record: Iterable[Mapping[str, Any]], held_to: Bounds) -> BadStep | None:
    """The step from which on a run has to be done again, by all of its record."""
    judge = LossJudge(held_to)
    judge.lines(record)
    return judge.bad
