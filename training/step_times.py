"""How long a step of a run takes and how many FLOPs that is, by the lines of its record.

The time of a step is the wall time from the loss before it to its own, as the host reads them: waiting for data is in
it, and whatever a save holds up. A start's first step, which compiles, has none, nor has one whose loss is read while
an evaluation runs. MaxText's own `perf/step_time_seconds` is the time between two steps that were handed on. Owns the
measure and what is usual of a run. Refuses to own the record (training/step_record.py) and a device's peak
(infra/hardware.yaml). A leaf: standard library only; infra reads by it.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEP_S = "slipway/step_s"  # beside MaxText's metrics, in a line of the record
NEWEST, _FEWEST = 1000, 8  # steps of a run whose median is usual; of fewer nothing is
_TFLOPS = "perf/per_device_tflops"  # by MaxText's formula


@dataclass(frozen=True)
class Speed:
    """`step_s`: the median of a run's newest steps that have a time and do as much as the last, across its starts.

    `tflops_per_s`: the model's FLOPs of one device in that time; None where MaxText counts none. A device does more or
    less in a step on other hosts than those that began the run, and while the batch grows.
    """

    step_s: float
    tflops_per_s: float | None


def speed_of(lines: Iterable[Mapping[str, Any]]) -> Speed | None:
    """By lines of a record, oldest first; None where too few of them have a time."""
    timed = deque((line for line in lines if STEP_S in line), NEWEST)
    tflops = timed[-1].get(_TFLOPS) if timed else None
    times = [float(line[STEP_S]) for line in timed if line.get(_TFLOPS) == tflops]
    if len(times) < _FEWEST:
        return None
    step_s = statistics.median(times)
    return Speed(step_s, tflops / step_s if tflops and step_s > 0 else None)


class StepClock:
    """Told when each loss is read. `speed` is of the run so far, by the lines that `timed` has given a time."""

    def __init__(self) -> None:
        self._before: tuple[int, float] | None = None
        self._took: dict[int, float] = {}  # of steps whose line is not read yet
        self._newest = deque[Mapping[str, Any]](maxlen=NEWEST)

    def begin_with(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """What earlier starts of the run have recorded."""
        self._newest.extend(line for line in lines if STEP_S in line)

    def loss_read(self, step: int, at: float, evaluating: bool) -> None:
        if self._before and self._before[0] == step - 1 and not evaluating:
            self._took[step] = at - self._before[1]
        self._before = (step, at)

    def timed(self, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The lines with their steps' times. MaxText logs a loss before it writes its line, so the time is there."""
        timed = [{**line, **self._time_of(line)} for line in lines]
        self.begin_with(timed)
        return timed

    def speed(self) -> Speed | None:
        return speed_of(self._newest)

    def _time_of(self, line: Mapping[str, Any]) -> dict[str, float]:
        took = self._took.pop(int(line["step"]), None) if "learning/loss" in line else None
        return {} if took is None else {STEP_S: took}
