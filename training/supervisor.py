"""Runs the training process and has the last word on how it ended, here and on the other hosts.

Owns signals, the training's stderr, the reason for an end that the training could not give itself (JAX aborts the
process when a host is lost, the kernel kills it when memory runs out), and its end where another host's comes first or
it says nothing any more. Refuses to own what the training knows (training/trainer.py writes the status of an end that
it sees) and how hosts hear each other (training/peers.py). Standard library only: cheap beside a training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from training import nccl_log, notice, record_keeper
from training.endings import Cause, Ending, of_process
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase, read_status, write_status
from training.loss_judge import BadStep
from training.peers import Peers, Word
from training.plan import Plan
from training.standstill import Lived

_TAIL_LINES = 400
_PEER_GRACE_S = 4.0  # a host that is lost, or was told to stop, is heard a moment after an exchange with it has broken
_OBEYS_S = 5.0  # a training ends itself within it, unless it is frozen or a thread holds the interpreter lock
_DUMPS_S = 1.0
_WATCH_S = 1.0
_SILENT_WINDOWS = 2  # its status is written twice a second: for so many of the least windows nothing is said at all
_FOR_ALL = (Cause.TRAINING, Cause.NUMBERS, Cause.OUTSIDE, Cause.STANDSTILL, Cause.INPUT, Cause.CUT_SHORT)


@dataclass(frozen=True)
class End:
    """The final status, which is also written; `word`: whose end it was, this host's or the first other one's."""

    status: HostStatus
    word: Word
    told_to_stop: Callable[[], bool]  # this host was, also since


def run(plan: Plan, plan_path: Path, environ: Mapping[str, str]) -> End:
    """Train to an end, passing SIGTERM and SIGINT on.

    The training is of this process's group, dies with this process, and leaves no process of its own behind.
    """
    supervisor = _Supervisor(plan, plan_path)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.told_to_stop)
    notice.watch(environ, supervisor.notified)
    with (
        record_keeper.beside(plan, plan_path, environ),
        Peers(plan.index, plan.count, plan.coordinator, supervisor.hear) as peers,
    ):
        return supervisor.supervise(environ, peers)


class _Supervisor:
    def __init__(self, plan: Plan, plan_path: Path) -> None:
        self._plan, self._plan_path, self._directory = plan, plan_path, plan_path.parent
        self._child: subprocess.Popen[bytes] | None = None
        self._order: Ending | None = None  # how the training ends by somebody else's word
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._stopping = False
        self._notice = ""

    def supervise(self, environ: Mapping[str, str], peers: Peers) -> End:
        code, stderr = self._train(environ)
        status = read_status(self._directory)
        assert status  # launch has written one
        final = status.phase.final
        ending = _ending(status) if final else self._order or of_process(code, stderr, self._plan, self._stopping)
        heard = peers.verdict(0.0) if self._order else None  # the word by which it ends, if it is another host's
        if ending.cause is Cause.LOST_HOST and (heard := peers.verdict(_PEER_GRACE_S)):
            ending = heard.told()  # who broke an exchange off has said why
        if self._stopping and not final:  # meanwhile, maybe
            ending = of_process(code, stderr, self._plan, stopping=True)
        if self._notice:
            ending = dataclasses.replace(ending, reason=f"{self._notice}: {ending.reason}")
        status = status.ended(ending.code, ending.reason, ending.cause)
        write_status(self._directory, status)
        for_all = ending.cause in _FOR_ALL and not heard
        word = Word(self._plan.index, for_all, ending, status.step, status.at or "starting")
        peers.say(word)
        if ending.cause is Cause.STANDSTILL and self._plan.count > 1:
            print(f"slipway: {_all_at(peers.everyone(_PEER_GRACE_S), self._plan.count)}", flush=True)
        return End(status, heard or word, lambda: self._stopping)

    def hear(self, word: Word) -> None:
        """Another host's word by which this one's training ends too."""
        self._end(word.told())

    def notified(self, said: str) -> None:
        """The platform's notice: as told to stop, which makes all hosts save."""
        if not self._stopping and not self._over.is_set():
            self._notice = said
            print(f"slipway: {said}; saving", flush=True)
            self.told_to_stop(signal.SIGTERM, None)

    def told_to_stop(self, number: int, frame: FrameType | None) -> None:
        """Pass a SIGTERM on. JAX swallows it until the next step, so before the first one there is nothing to await.

        Nor to save: until then, also while a checkpoint is restored, the newest checkpoint is all that there is.
        """
        self._stopping = True
        if self._child is None or self._child.poll() is not None:
            return
        self._child.send_signal(signal.SIGTERM)
        status = read_status(self._directory)
        if status and status.phase in (Phase.STARTING, Phase.COMPILING):
            self._child.kill()

    def _train(self, environ: Mapping[str, str]) -> tuple[int, str]:
        """The training's return code (negative: a signal) and the end of its stderr, which is passed on as it comes."""
        command = [sys.executable, "-m", "training.trainer", str(self._plan_path), str(os.getpid())]
        child = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with self._lock:
            self._child = child
            order = self._order
        if self._stopping:  # told between the handler's installation and here
            child.kill()
        elif order:
            self._tell(order)
        tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        reader = threading.Thread(target=_pass_on, args=(child, tail), daemon=True)
        reader.start()
        threading.Thread(target=self._watch, name="slipway-watch", daemon=True).start()
        code = child.wait()
        self._over.set()
        assert child.stdin
        with contextlib.suppress(OSError):  # a word that it did not read any more
            child.stdin.close()
        reader.join(timeout=5.0)  # a data worker may still hold the pipe
        return code, b"".join(tail).decode(errors="replace")

    def _end(self, ending: Ending) -> None:
        """End the training so: the first such word counts, and none once it has ended by itself."""
        with self._lock:
            if self._order or self._over.is_set():
                return
            self._order = ending
        if self._child:
            self._tell(ending)

    def _tell(self, ending: Ending) -> None:
        """The training ends itself, with its last metrics and its stacks; where it does not, it is killed."""
        assert self._child and self._child.stdin
        with contextlib.suppress(OSError):  # it has ended
            self._child.stdin.write(json.dumps(dataclasses.asdict(ending)).encode() + b"\n")
            self._child.stdin.flush()
        threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        child = self._child
        assert child
        if self._over.wait(_OBEYS_S):
            return
        workers = _descendants(child.pid)
        child.send_signal(signal.SIGUSR1)  # faulthandler writes all threads' stacks without the interpreter lock
        self._over.wait(_DUMPS_S)
        child.kill()
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def _network_refused(self, lines: list[str], log: Path) -> str | None:
        """NCCL's warnings are passed on: it writes nowhere else where it was told a file."""
        for warning in nccl_log.warnings(lines):
            print(f"slipway: NCCL warns: {warning}", flush=True)
        return nccl_log.sockets_refused(lines, self._plan.network, log) if self._plan.sockets_refused else None

    def _watch(self) -> None:
        """A training that says nothing for longer than any window cannot judge itself: somebody has to end it."""
        child, limit = self._child, float(_SILENT_WINDOWS * self._plan.standstill_s)
        assert child
        lived, said, since = Lived(_WATCH_S), 0.0, 0.0
        log_path = self._directory / nccl_log.FILE_NAME
        nccl = nccl_log.NcclLog(log_path)
        while not self._over.wait(_WATCH_S):
            if refusal := self._network_refused(nccl.lines(), log_path):
                self._end(Ending(ExitCode.BAD_INPUT, Cause.INPUT, refusal))
                return
            now, status = lived.now(), read_status(self._directory)
            spoken = status is None or status.updated != said or status.phase not in (Phase.COMPILING, Phase.TRAINING)
            if spoken or _is_stopped(child.pid):  # a stopped process, or one in a debugger
                said, since = status.updated if status else 0.0, now
            elif now - since > limit:
                reason = (
                    f"stands still: its process has said nothing for {limit:.0f} s; a thread holds Python's "
                    "interpreter lock (its stack is in the log), or the host's directory cannot be written"
                )
                self._end(Ending(ExitCode.INTERRUPTED, Cause.STANDSTILL, reason))
                return


def _ending(status: HostStatus) -> Ending:
    """Of a training that had the last word itself."""
    cause = Cause(status.cause or Cause.TRAINING)
    return Ending(ExitCode(status.exit_code or 0), cause, status.reason or "", BadStep.of(status.bad))


def _all_at(words: Mapping[int, Word], count: int) -> str:
    """Who waits for whom, as far as hosts say where they are."""
    silent = [f"host {index} does not answer" for index in range(count) if index not in words]
    hosts: dict[str, list[str]] = {}
    for index, word in sorted(words.items()):
        hosts.setdefault(word.at, []).append(str(index))
    return "; ".join([f"host {', '.join(several)}: {at}" for at, several in hosts.items()] + silent)


def _pass_on(child: subprocess.Popen[bytes], tail: deque[bytes]) -> None:
    assert child.stderr
    with child.stderr:
        for line in child.stderr:
            tail.append(line)
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()


def _stat(pid: int) -> tuple[str, int]:
    """State and parent of a process; ("", 0) where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])


def _is_stopped(pid: int) -> bool:
    return _stat(pid)[0] in ("T", "t")


def _descendants(pid: int) -> list[int]:
    parents = {
        int(entry.name): _stat(int(entry.name))[1] for entry in Path("/proc").iterdir() if entry.name.isdecimal()
    }
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]
