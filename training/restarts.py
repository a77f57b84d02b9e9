"""Whether a training that has ended is started again, and after how long. Pure: randomness comes from the caller.

Owns the rule. Refuses to own the waiting (training/launch.py) and hosts whose launcher is killed: whoever started that,
systemd on VMs, starts it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from training.endings import Cause
from training.peers import Word

FIRST_S, LONGEST_S = 15.0, 300.0
SPREAD = 0.25  # of a wait, at random, so that hosts do not ask a service together that has just come back


class Restarts:
    """random: in [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._furthest = -1
        self._in_vain = 0  # starts since a step was done that none before had reached
        self._last: tuple[int, int, str] | None = None

    def wait_s(self, end: Word) -> float | None:
        """Seconds until the next start; None where there is none, for it would change nothing."""
        if end.ending.cause in (Cause.DONE, Cause.INPUT, Cause.NUMBERS) or self.is_repeated(end):
            return None
        self._last = _error(end)
        self._in_vain = 0 if end.step > self._furthest else self._in_vain + 1
        self._furthest = max(self._furthest, end.step)
        wait = min(LONGEST_S, FIRST_S * 2**self._in_vain)
        return wait * (1 + SPREAD * (2 * self._random() - 1))

    def is_repeated(self, end: Word) -> bool:
        """Whether the training itself has failed as it did before, on the same host and at the same step."""
        return end.ending.cause is Cause.TRAINING and _error(end) == self._last


def _error(end: Word) -> tuple[int, int, str]:
    """What makes two ends the same: not the numbers in it, which may be addresses and free bytes."""
    return end.host, end.step, re.sub(r"\d+", "#", end.ending.reason)
