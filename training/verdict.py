"""One host's end is every host's: why it cannot go on is told to all, and ends the training on each with its name.

A host that stays is in a collective or a barrier with one that cannot go on: Orbax's commit waits 1,200 s. So whoever
knows says so in the table of JAX's coordination service, where every host looks each POLL_S. The table is host 0's:
where that is frozen, each call to it waits, so none is made by the thread that ends the process. Owns the keys there
and the threads. Refuses to own what is a failure or a standstill (training/trainer.py, metrics.py, standstill.py), and
hosts that are gone without a word: JAX's heartbeats notice those.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from jax._src import distributed  # the table has no public door; Orbax takes this one too
from jax.errors import JaxRuntimeError

from training.exit_codes import ExitCode

POLL_S = 0.5
_ENDS, _HEARD, _AT = "slipway/ends/", "slipway/heard/", "slipway/at/"
_TALK_S = 10.0  # at most, until all have heard it; host 0's process has to stay as long, for it has the table


@dataclass(frozen=True)
class Cause:
    """Why the training ends. Of a standstill, which is worth another start, every host shows where it is."""

    code: ExitCode
    reason: str
    own: bool = True

    @property
    def is_standstill(self) -> bool:
        return self.code is ExitCode.INTERRUPTED


class Verdict:
    """`end` ends this process and does not return. `where` is what this host is at, in a few words."""

    def __init__(self, index: int, count: int, end: Callable[[Cause], NoReturn], where: Callable[[], str]) -> None:
        self._index, self._count, self._end, self._where = index, count, end, where
        self._cause: Cause | None = None
        self._known = threading.Event()
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="slipway-verdict", daemon=True)
        self._listener = threading.Thread(target=self._listen, name="slipway-listen", daemon=True)

    def start(self) -> None:
        """Once the hosts have met."""
        self._watcher.start()
        self._listener.start()

    def fail(self, cause: Cause) -> None:
        """End the training on all hosts, from any thread. The first counts; returns at once."""
        self._cause = self._cause or cause
        self._known.set()

    def stop(self) -> None:
        """Watch no longer. Does not return where the process is being ended."""
        self._stopped.set()
        self._known.set()
        if self._watcher.is_alive():
            self._watcher.join()
            self._listener.join(_TALK_S)  # JAX's client must not end under it

    def tell(self, cause: Cause) -> None:
        """Tell all hosts, and wait until they have heard it where this one has the table."""
        self._cause = self._cause or cause
        if self._count == 1 or not (table := _table()):
            return
        talk = threading.Thread(target=self._talk, args=(table, cause), name="slipway-talk", daemon=True)
        talk.start()
        talk.join(_TALK_S)

    def _watch(self) -> None:
        self._known.wait()
        cause = self._cause
        if cause is None:
            return  # stopped
        if cause.is_standstill:
            sys.stdout.flush()
            faulthandler.dump_traceback(sys.stderr, all_threads=True)
        self.tell(cause)
        self._end(cause)

    def _listen(self) -> None:
        table = _table()
        while self._count > 1 and not self._stopped.wait(POLL_S):
            try:
                said = _hosts(table, _ENDS)
            except JaxRuntimeError:
                continue  # host 0 is gone or frozen: JAX ends this process, or it sees a standstill
            if said:
                by_host = [(host, *value.split(" ", 1)) for host, value in sorted(said.items())]
                self._known.wait(POLL_S)  # what fails on all hosts fails on this one too, and is its own then
                reasons = "; ".join(f"host {host}: {reason}" for host, _, reason in by_host)
                self.fail(Cause(ExitCode(int(by_host[0][1])), reasons, own=False))
                return

    def _talk(self, table: Any, cause: Cause) -> None:
        try:
            self._talk_at(table, cause)
        except JaxRuntimeError as error:
            print(f"slipway: the other hosts could not be told: {error}", file=sys.stderr, flush=True)

    def _talk_at(self, table: Any, cause: Cause) -> None:
        until = time.monotonic() + _TALK_S - POLL_S
        if cause.is_standstill:
            table.key_value_set(f"{_AT}{self._index}", self._where(), allow_overwrite=True)
        own = (f"{_ENDS}{self._index}", f"{int(cause.code)} {cause.reason}")
        table.key_value_set(*(own if cause.own else (f"{_HEARD}{self._index}", "")), allow_overwrite=True)
        waits = self._index == 0 or cause.is_standstill
        while waits and time.monotonic() < until and len(_hosts(table, _ENDS) | _hosts(table, _HEARD)) < self._count:
            time.sleep(POLL_S)
        if cause.is_standstill:
            print(f"slipway: {self._all_at(_hosts(table, _AT))}", flush=True)

    def _all_at(self, at: dict[int, str]) -> str:
        """Who waits for whom, as far as hosts say where they are."""
        silent = [f"host {index} does not answer" for index in range(self._count) if index not in at]
        hosts: dict[str, list[str]] = {}
        for index, where in sorted(at.items()):
            hosts.setdefault(where, []).append(str(index))
        said = [f"host {', '.join(several)}: {where}" for where, several in hosts.items()]
        return "; ".join(said + silent)


def _hosts(table: Any, folder: str) -> dict[int, str]:
    """What the hosts have written there, by host."""
    return {int(key.removeprefix(folder)): value for key, value in table.key_value_dir_get(folder)}


def _table() -> Any:
    """The coordination service's client; None before the hosts have met."""
    return distributed.global_state.client
