"""When a training stands still: nothing ends for longer than its own steps, saves and evaluations have let one expect.

Pure but for the clock, Lived: times come from the caller, in seconds of it, so that a clock that is set, a suspended
machine or a stopped process is no standstill. Owns the activities and how long each may take. Refuses to own what
follows (training/supervisor.py).
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

LEAST_WINDOW_S = 60.0
UNMEASURED_S = 3600.0  # for what has not ended once in this start: a compile, the first connection of slices, a restore
_KEPT_STEPS = 64
_FEWEST_STEPS = 5  # of them the first is often slow
_USUAL, _LONGEST = 10.0, 4.0  # how many times as long as the median, and as the longest that was seen


class Activity(StrEnum):
    COMPILING = "compiling"  # all until the first step ends, restoring too
    STEP = "a step"
    SAVE = "saving a checkpoint"
    EVALUATION = "evaluating"


@dataclass(frozen=True)
class Standstill:
    """What has not ended for `seconds`, though it has never taken longer than `longest` and `window` has passed."""

    activity: Activity
    step: int  # steps that are done
    seconds: float
    window: float
    longest: float | None

    def __str__(self) -> str:
        usual = f"; the longest before took {self.longest:.1f} s" if self.longest is not None else ""
        return f"stands still after step {self.step}: {self.activity} does not end for {self.seconds:.0f} s{usual}"


class Pace:
    """How long each activity takes. least: no window is shorter, in seconds."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._took: dict[Activity, deque[float]] = {activity: deque(maxlen=_KEPT_STEPS) for activity in Activity}
        self._steps = 0
        self._ended: float | None = None  # whatever ended last
        self._begun: dict[Activity, float] = {}  # saves and evaluations under way
        self._disturbed = False  # the step under way is longer by a save or an evaluation
        self._over = False

    def watched(self, now: float) -> None:
        """From here on something is expected to end."""
        self._ended = now if self._ended is None else self._ended

    def step(self, completed: int, now: float) -> None:
        if self._steps and self._ended is not None and not self._disturbed:
            self._took[Activity.STEP].append(now - self._ended)
        self._steps, self._ended = completed, now
        self._disturbed = Activity.SAVE in self._begun

    def began(self, activity: Activity, now: float) -> None:
        self._begun.setdefault(activity, now)
        self._disturbed = True

    def ended(self, activity: Activity, now: float) -> None:
        if (begun := self._begun.pop(activity, None)) is not None:
            self._took[activity].append(now - begun)
            self._ended = now

    def over(self) -> None:
        """The last step is done, or the training was told to stop: what it does yet has no measure."""
        self._over = True

    def still(self, now: float) -> float:
        """Seconds since anything ended."""
        return 0.0 if self._ended is None else now - self._ended

    def window(self, activity: Activity) -> float:
        """Seconds that the activity may take."""
        steps, saves = self._measured(Activity.STEP), self._measured(Activity.SAVE)
        if activity is Activity.SAVE and steps and saves:
            return max(steps, saves)  # steps go on beside it
        if activity is Activity.STEP and not steps:
            return saves or UNMEASURED_S  # a save at every step
        return self._measured(activity) or UNMEASURED_S

    def _measured(self, activity: Activity) -> float | None:
        took = self._took[activity]
        if len(took) < (_FEWEST_STEPS if activity is Activity.STEP else 1):
            return None
        return max(self._least, _USUAL * statistics.median(took), _LONGEST * max(took))

    def stop_s(self) -> float | None:
        """Seconds that a stop takes at worst: the step under way to its end, and a save; None before both are known."""
        steps, saves = self._took[Activity.STEP], self._took[Activity.SAVE]
        return max(steps) + max(saves) if len(steps) >= _FEWEST_STEPS and saves else None

    def activity(self) -> Activity:
        if not self._steps:
            return Activity.COMPILING
        return next((each for each in (Activity.EVALUATION, Activity.SAVE) if each in self._begun), Activity.STEP)

    def is_slow(self, now: float) -> bool:
        """Whether half of what the activity may take has passed."""
        return self.still(now) > self.window(self.activity()) / 2

    def standstill(self, now: float) -> Standstill | None:
        activity = self.activity()
        seconds, window = self.still(now), self.window(activity)
        if self._over or seconds <= window:
            return None
        took = self._took[activity]
        return Standstill(activity, self._steps, seconds, window, max(took) if took else None)


class Lived:
    """A clock, in seconds, that stands while this process does not run: suspended, stopped, or held by a debugger."""

    def __init__(self, period_s: float) -> None:
        self._longest, self._lived, self._last = 2 * period_s, 0.0, time.monotonic()

    def now(self) -> float:
        """Of one thread at a time, at least each period while the process runs."""
        now = time.monotonic()
        self._lived += min(now - self._last, self._longest)
        self._last = now
        return self._lived
