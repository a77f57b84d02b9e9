"""What matrices of faults share: a case in processes of its own, in which an actor meets a fault and is really killed.

A parent imports everything once and, without threads, forks per case (`run_all`); each case forks an actor, which plays
engine and provider over the provider's own resources, and serves it an emulator. The actor's clock is the emulator's:
whenever it waits it asks the case, which moves the clock or kills it. Refuses to own which cases there are, and how the
cloud should look afterwards (fault_matrix.py, vertex_matrix.py).
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Protocol

from infra.emulators.call_faults import Call, Fault, FaultKind
from infra.providers.resource import ResourceError

SURVIVES, UP, DESTROY, OUTLIVED = "survives", "killed, then up", "killed, then destroy", "provider outlives its engine"
ENDS = (SURVIVES, UP, DESTROY, OUTLIVED)
GIVEN_UP = "survives, then destroy"
FEW = (FaultKind.TIMEOUT_AFTER, FaultKind.UNAVAILABLE)
# One of each meaning: refused, not now, done and not said, nothing said of what is there, said to have failed.
MEANINGS = (FaultKind.DENIED, *FEW, FaultKind.EMPTY, FaultKind.OPERATION_ERROR_AFTER)
# Of a call that changes nothing: it has no effect to be lost; 500, 503 and 504 mean the same, and so do 401 and 403.
OF_READS = (
    FaultKind.TOO_MANY_REQUESTS,
    FaultKind.UNAVAILABLE,
    FaultKind.DENIED,
    FaultKind.TIMEOUT,
    FaultKind.CUT_BEFORE,
    FaultKind.CUT_WITHIN,
    FaultKind.MALFORMED,
    FaultKind.EMPTY,
)
PATIENCE_S = 600.0  # of real time, for a case that should take less than one
_HOLDING = (FaultKind.TIMEOUT, FaultKind.TIMEOUT_AFTER, FaultKind.SLOW)
_WORKERS = 4

type Ask = Callable[[str, Any], Any]  # "state" and what the engine has in it, or "pause" and seconds


class FaultyEmulator(Protocol):
    """An emulated API of Google's, whose calls can fail."""

    @property
    def calls(self) -> list[Call]: ...

    @property
    def faults(self) -> list[Fault]: ...

    def advance(self, seconds: float) -> None: ...

    def fail(self, kind: FaultKind, rpc: str = "", **fields: Any) -> Fault: ...

    def release_all(self) -> None: ...


class CaseError(AssertionError):
    """The cloud is not as it should be."""


@dataclass(frozen=True)
class Case:
    verb: str
    kind: FaultKind
    rpc: str
    skip: int  # calls of it before
    end: str

    def __str__(self) -> str:
        return f"{self.verb}: {self.kind.name} at {self.rpc} {self.skip}, {self.end}"


@dataclass(frozen=True)
class Actor:
    """A process that acts, and asks at each pause and each checkpoint whether it may go on."""

    process: int
    pipe: Connection

    @staticmethod
    def forked(act: Callable[[Ask], None]) -> Actor:
        """Before the emulator has threads."""
        ours, theirs = Pipe()
        process = os.fork()
        if process == 0:
            status = 1
            try:
                _act(act, theirs)
                status = 0
            except EOFError:
                pass
            except BaseException:  # noqa: BLE001 - a forked process must not go on as its parent
                theirs.send(("broken", traceback.format_exc()))
            os._exit(status)
        theirs.close()
        return Actor(process, ours)

    def watched(self, case: Case, state: dict[str, Any], api: FaultyEmulator) -> tuple[dict[str, Any], str]:
        """Serves it until it has ended or is killed. Returns what the engine has in its state, and how it ended."""
        kept: dict[str, Any] | None = None  # where the engine is dead
        fault = api.fail(case.kind, case.rpc, skip=case.skip)
        poll_s = 0.002 if case.kind in _HOLDING else PATIENCE_S  # of a call that is held nothing comes by the pipe
        said = ""
        until = time.monotonic() + PATIENCE_S
        while True:
            if time.monotonic() > until:
                raise CaseError("the actor does not end")
            happened = fault.happened > 0
            if happened and case.end == OUTLIVED and kept is None:
                kept = dict(state)
            if fault.held.is_set() and not fault.release.is_set():
                if case.end in (UP, DESTROY):
                    self._kill()
                    fault.release.set()
                    _until_answered(api)
                    break
                fault.release.set()
            if not self.pipe.poll(poll_s):
                continue
            kind, value = self.pipe.recv()
            happened = fault.happened > 0
            if kind == "broken":
                raise CaseError(value)
            if kind == "ended":
                said = value
                break
            if happened and case.end in (UP, DESTROY):
                self._kill()  # what it was about to write is lost with it
                break
            if kind == "state":
                if happened and kept is None and case.end == OUTLIVED:
                    kept = dict(state)
                if kept is not None:
                    self._kill()  # the provider has done its call; nobody is there for the next one
                    break
                state = value
            if kind == "pause":
                api.advance(value)
            self.pipe.send(None)
        os.waitpid(self.process, 0)
        self.pipe.close()
        if not fault.happened:
            raise CaseError("the fault did not happen")
        api.release_all()
        api.faults.clear()
        if "fault in slipway" in said or "Traceback" in said:
            raise CaseError(said)
        return (state if kept is None else kept), said

    def _kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)


def _act(act: Callable[[Ask], None], pipe: Connection) -> None:
    """Says each checkpoint and each pause, and goes on when told to."""

    def ask(kind: str, value: Any) -> Any:
        pipe.send((kind, value))
        return pipe.recv()

    try:
        act(ask)
    except ResourceError as error:
        pipe.send(("ended", str(error)))
    else:
        pipe.send(("ended", ""))


def _until_answered(api: FaultyEmulator) -> None:
    """What was held has happened, though nobody waits for it."""
    until = time.monotonic() + PATIENCE_S
    while not api.calls[-1].status and api.calls[-1].fault == "SLOW" and time.monotonic() < until:
        time.sleep(0.002)


def run_all(verbs: list[str], every: Sequence[Case], run: Callable[[Case], None], share: float, seed: str) -> None:
    """Each case, or a share of them by seed, in a process of its own; prints what came of them as JSON."""
    ran = random.Random(seed).sample(every, math.ceil(len(every) * share)) if share < 1 else every
    failures: list[str] = []
    running: dict[int, Case] = {}
    todo = list(ran)
    cores = itertools.cycle(os.sched_getaffinity(0))
    gc.collect()
    gc.disable()  # a case ends soon; a collection would copy every page that it shares with its parent
    gc.freeze()
    while todo or running:
        while todo and len(running) < _WORKERS:
            case, core = todo.pop(), next(cores)
            child = os.fork()
            if child == 0:
                _run_alone(case, run, core)
            running[child] = case
        ended, code = os.wait()
        case = running.pop(ended)
        if code:
            failures.append(str(case))
    print(json.dumps({"verbs": verbs, "cases": len(every), "ran": len(ran), "failures": failures}))


def _run_alone(case: Case, run: Callable[[Case], None], core: int) -> None:
    """In this process, which ends with it."""
    status = 1
    try:
        os.sched_setaffinity(0, {core})  # client and emulator take turns: on two cores each turn costs twice
        run(case)
        status = 0
    except BaseException as error:  # noqa: BLE001 - a forked process must not go on as its parent
        trace = "" if isinstance(error, CaseError) else traceback.format_exc()
        sys.stderr.write(f"{case}: {error}\n{trace}")
        sys.stderr.flush()
    os._exit(status)
