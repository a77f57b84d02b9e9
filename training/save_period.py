"""How often a run saves where its stack does not say: from what earlier starts have measured. Pure.

Owns the rule. A period holds for a whole start, and is host 0's on all hosts: MaxText's configuration is frozen and
Orbax is told the period when it is made, and of hosts that went over to another one at different steps each would wait
in its save for the others. Losses do not depend on it. Refuses to own what is measured (training/standstill.py), that
hosts agree (training/trainer.py) and how often a run is interrupted (infra/tiers.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from training.standstill import Activity, Measures

# Until a save was measured.
_SAVES_PER_RUN = 4
_MOST_STEPS = 500
_MOST_S = 1800.0
_LONGER_THAN_A_SAVE = 2.0  # times: of a save that is always under way no step is free, and the next one waits for it


@dataclass(frozen=True)
class SavePeriod:
    """steps: from one save to the next. why: with the numbers, for people."""

    steps: int
    why: str

    def __str__(self) -> str:
        return f"saves every {self.steps} steps: {self.why}"


def derived(measures: Measures, interruption_s: int, steps: int) -> SavePeriod:
    """Young's interval, the root of 2 x cost of a save x time between interruptions, in steps, of a run of `steps`.

    A save's cost is what it makes the training longer, not how long it is under way beside it (training/standstill.py).
    """
    step, save, cost_s = measures.took.get(Activity.STEP), measures.took.get(Activity.SAVE), measures.save_cost_s
    if not step or not save or cost_s is None or not interruption_s:
        return _until_measured(step.median if step else 0.0, steps)
    interval_s = max(math.sqrt(2 * cost_s * interruption_s), _LONGER_THAN_A_SAVE * save.median)
    why = (
        f"a step takes {_seconds(step.median)}, a save costs {_seconds(cost_s)} and is done after "
        f"{_seconds(save.median)}, one interruption in {interruption_s / 3600:.3g} h is expected"
    )
    return SavePeriod(_steps(interval_s, step.median, steps), why)


def _until_measured(step_s: float, steps: int) -> SavePeriod:
    default = min(max(1, steps // _SAVES_PER_RUN), _MOST_STEPS)
    return SavePeriod(min(default, _steps(_MOST_S, step_s, steps)), "what a save costs here is not measured yet")


def _steps(interval_s: float, step_s: float, most: int) -> int:
    """As many steps as take that long, of at least one and at most `most`."""
    return max(1, round(min(interval_s / step_s, most))) if step_s else most


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.3f} s"
