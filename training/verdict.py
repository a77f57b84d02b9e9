"""One host's failure ends the training on all: what ended it is told to every host, and ends that with its name.

A host that stays is in a collective or a barrier with one that cannot go on: Orbax's commit waits 1,200 s. So whoever
fails says why in the table of JAX's coordination service, where every host looks each POLL_S. Owns the keys there and
its thread. Refuses to own what is a failure and how it is called (training/trainer.py, training/metrics.py), and hosts
that are gone without a word: JAX's heartbeats notice those.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from jax._src import distributed  # the table has no public door; Orbax takes this one too

POLL_S = 0.5
_FAILED, _HEARD = "slipway/failed/", "slipway/heard/"
_LINGER_S = 10.0  # at most, for the others to read what host 0 has said: the table ends with its process


class Verdict:
    """Watches from a thread. `end` takes a reason, ends this process and does not return."""

    def __init__(self, index: int, count: int, end: Callable[[str], NoReturn]) -> None:
        self._index, self._count, self._end = index, count, end
        self._own: str | None = None
        self._known = threading.Event()  # of an own failure, or that nothing is to be watched any more
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name="slipway-verdict", daemon=True)

    def start(self) -> None:
        """Once the hosts have met."""
        self._thread.start()

    def fail(self, reason: str) -> None:
        """End the training on all hosts, from any thread. The first reason counts; returns at once."""
        if self._own is None:
            self._own = reason
        self._known.set()

    def stop(self) -> None:
        """Watch no longer. Does not return where the process is being ended."""
        self._stopped = True
        self._known.set()
        if self._thread.is_alive():
            self._thread.join()

    def tell(self, reason: str) -> None:
        """Tell all hosts why this one ends; of host 0 it returns when they have heard it, as far as they are there."""
        if self._count == 1 or not (table := _table()):
            return
        table.key_value_set(f"{_FAILED}{self._index}", reason, allow_overwrite=True)
        until = time.monotonic() + _LINGER_S
        while self._index == 0 and time.monotonic() < until:
            if len(table.key_value_dir_get(_HEARD)) + len(table.key_value_dir_get(_FAILED)) >= self._count:
                return
            time.sleep(POLL_S)

    def _watch(self) -> None:
        while True:
            self._known.wait(POLL_S)
            if self._own is not None:
                self.tell(self._own)
                self._end(self._own)
            if self._stopped:
                return
            if said := self._others():
                self._end(said)

    def _others(self) -> str | None:
        if self._count == 1 or not (table := _table()):
            return None
        said: list[tuple[str, str]] = sorted(table.key_value_dir_get(_FAILED))
        if not said:
            return None
        table.key_value_set(f"{_HEARD}{self._index}", "", allow_overwrite=True)
        return "; ".join(f"host {key.removeprefix(_FAILED)}: {reason}" for key, reason in said)


def _table() -> Any:
    """The coordination service's client; None before the hosts have met."""
    return distributed.global_state.client
