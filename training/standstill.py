"""When a training stands still: nothing ends for longer than its own steps, saves and evaluations have let one expect.

Pure but for the clock, Lived: times come from the caller, in seconds of it, so that a clock that is set, a suspended
machine or a stopped process is no standstill. Owns the activities, how long each took and how long each may take.
Refuses to own what follows (training/supervisor.py) and how measures outlive a start (training/paces.py).
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LEAST_WINDOW_S = 60.0
UNMEASURED_S = 3600.0  # for what no start has measured: a compile, the first connection of slices, a restore
EARLIER_S = 600.0  # the least for what only earlier starts have measured: caches may be cold now, and a store slow
_KEPT_STEPS = 64
_FEWEST_STEPS = 5  # of them the first is often slow
_USUAL, _LONGEST = 10.0, 4.0  # how many times as long as the median, and as the longest that was seen


class Activity(StrEnum):
    COMPILING = "compiling"  # all until the first step ends
    RESTORING = "restoring and compiling"  # the same of a start that resumes
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


@dataclass(frozen=True)
class Took:
    """How long an activity took, in seconds."""

    median: float
    longest: float

    @staticmethod
    def of(seconds: Iterable[float]) -> Took:
        every = list(seconds)
        return Took(statistics.median(every), max(every))

    @property
    def window(self) -> float:
        return max(_USUAL * self.median, _LONGEST * self.longest)


@dataclass(frozen=True)
class Measures:
    """What starts have measured.

    save_cost_s: by how much a save makes the training longer, which goes on beside it: the steps that it disturbs,
    together, without what as many other steps take. It has no part of what is written after the last of them.
    """

    took: Mapping[Activity, Took] = field(default_factory=dict[Activity, Took])
    save_cost_s: float | None = None


class Pace:
    """How long each activity takes.

    least: no window is shorter, in seconds. earlier: what starts before this one have measured, which counts where this
    one has not.
    """

    def __init__(self, least: float, earlier: Measures | None = None) -> None:
        self._least, self._earlier = least, earlier or Measures()
        self._first = Activity.COMPILING
        self._took: dict[Activity, deque[float]] = {activity: deque(maxlen=_KEPT_STEPS) for activity in Activity}
        self._costs: deque[float] = deque(maxlen=_KEPT_STEPS)
        self._saves = 0  # since the last step that none has disturbed
        self._beside_saves: list[float] = []  # the steps since then
        self._steps = 0
        self._ended: float | None = None  # whatever ended last
        self._stepped = 0.0  # when the last step ended
        self._paused = 0.0  # seconds of the step under way that were an evaluation, which has ended
        self._begun: dict[Activity, float] = {}  # saves and evaluations under way
        self._disturbed = False  # the step under way is longer by a save or an evaluation
        self._over = False

    def resumes(self) -> None:
        """The first step waits for a restore too."""
        self._first = Activity.RESTORING

    def watched(self, now: float) -> None:
        """From here on something is expected to end."""
        self._ended = now if self._ended is None else self._ended

    def step(self, completed: int, now: float) -> None:
        if not self._steps and self._ended is not None:
            self._took[self._first].append(now - self._ended)
        elif self._steps:
            self._count(now - self._stepped - self._evaluated(now))
        self._steps, self._ended, self._stepped, self._paused = completed, now, now, 0.0
        self._disturbed = bool(self._begun)  # MaxText says of a step that it is done when it evaluates already

    def _count(self, seconds: float) -> None:
        if self._disturbed:
            self._beside_saves += [seconds] if self._saves else []
            return
        self._took[Activity.STEP].append(seconds)
        usual = self._known(Activity.STEP)
        if self._saves and usual:  # they are over: a step like others
            longer = sum(self._beside_saves) - len(self._beside_saves) * usual.median
            self._costs.append(max(0.0, longer) / self._saves)
        self._saves, self._beside_saves = 0, []

    def began(self, activity: Activity, now: float) -> None:
        self._begun.setdefault(activity, now)
        self._disturbed = True
        if activity is Activity.SAVE and self._steps:
            self._saves += 1

    def ended(self, activity: Activity, now: float) -> None:
        paused = self._evaluated(now)
        if (begun := self._begun.pop(activity, None)) is not None:
            self._took[activity].append(now - begun)
            self._ended, self._paused = now, paused if activity is Activity.EVALUATION else self._paused

    def _evaluated(self, now: float) -> float:
        """Seconds of the step under way that are an evaluation, not a step's."""
        begun = self._begun.get(Activity.EVALUATION)
        return self._paused + (now - max(begun, self._stepped) if begun is not None else 0.0)

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
        if own := self._own(activity):
            return max(self._least, own.window)
        earlier = self._earlier.took.get(activity)
        return max(self._least, EARLIER_S, earlier.window) if earlier else None

    def _own(self, activity: Activity) -> Took | None:
        """As this start has measured it."""
        took = self._took[activity]
        return Took.of(took) if len(took) >= (_FEWEST_STEPS if activity is Activity.STEP else 1) else None

    def _known(self, activity: Activity) -> Took | None:
        return self._own(activity) or self._earlier.took.get(activity)

    def measures(self) -> Measures:
        """Of this start, and of those before it what this one has not measured."""
        took = {activity: known for activity in Activity if (known := self._known(activity))}
        return Measures(took, statistics.median(self._costs) if self._costs else self._earlier.save_cost_s)

    def stop_s(self) -> tuple[float, float] | None:
        """How long the step under way and a save take at worst, which a stop waits for; None before both are known."""
        step, save = self._known(Activity.STEP), self._known(Activity.SAVE)
        return (step.longest, save.longest) if step and save else None

    def activity(self) -> Activity:
        if not self._steps:
            return self._first
        return next((each for each in (Activity.EVALUATION, Activity.SAVE) if each in self._begun), Activity.STEP)

    def is_slow(self, now: float) -> bool:
        """Whether half of what the activity may take has passed."""
        return self.still(now) > self.window(self.activity()) / 2

    def standstill(self, now: float) -> Standstill | None:
        activity = self.activity()
        seconds, window = self.still(now), self.window(activity)
        if self._over or seconds <= window:
            return None
        known = self._known(activity)
        return Standstill(activity, self._steps, seconds, window, known.longest if known else None)


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
