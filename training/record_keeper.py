"""`python -m training.record_keeper plan.json`: what a host records of a run in a bucket outlives the host.

A process beside the training, so that a bucket which is slow or away never holds that up: at each finished checkpoint,
every few minutes and at every end it writes the lines of the record that are new, the start and the last word
(training/run_objects.py). What cannot be written is said and tried again, and ends no training: checkpoints, which go
the same way, do. Owns what is written when, and fetching it on a host whose disk is new. Refuses to own the record
itself (training/metrics.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from training import run_objects
from training.bucket_errors import bucket_error
from training.endings import sentence
from training.host_status import HostStatus, Phase, read_status
from training.loss_judge import USUAL_OF
from training.plan import Plan, load
from training.run_objects import HostStart

EVERY_S = 180.0
LAST_S = 15  # at the end of a host, which a preemption leaves 30 s in all
_POLL_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 15.0, 300.0
_CHUNK_BYTES = 4 << 20
_FETCHED_LINES = 8 * USUAL_OF  # what a bad step is told by is in the newest lines
_NOT_BEGUN = (Phase.BOOTSTRAPPING, Phase.STARTING)  # it is not known yet what the start resumes from

type Put = Callable[[str, str], object]  # an object's key below the run, and its text


@contextlib.contextmanager
def beside(plan: Plan, plan_path: Path, environ: Mapping[str, str]) -> Generator[None]:
    """Keeps the record of what is done in this context, whose end it outlives by LAST_S at most."""
    if not plan.run:
        yield
        return
    command = [sys.executable, "-m", "training.record_keeper", str(plan_path)]
    with subprocess.Popen(command, env=dict(environ), stdin=subprocess.PIPE) as process:
        yield  # its end closes the pipe, as this process's does
    if process.returncode:
        said = f"the end of this host's record is not in {plan.run} yet: it follows at the next start on this disk"
        print(f"slipway: {said}", flush=True)


class RecordKeeper:
    """Told every second to go on. `directory` is the host's; `now` is a clock in seconds."""

    def __init__(self, plan: Plan, directory: Path, put: Put, now: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._directory, self._put, self._now = plan, directory, put, now
        self._record = KeptRecord(Path(plan.metrics_record))
        self._start_is_kept = False
        self._chunks = 0
        self._sent_step = -1
        self._sent_at = now()
        self._pause_s, self._again_at = 0.0, now()

    def go_on(self) -> None:
        """Write what is due; where that fails, try again later."""
        if self._now() < self._again_at:
            return
        if self._is_written(is_end=False):
            self._pause_s = 0.0
        else:
            self._pause_s = min(2 * self._pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            self._again_at = self._now() + self._pause_s

    def finish(self) -> bool:
        """Write all that is left, with the last word if there is one; whether that is done."""
        return self._is_written(is_end=True)

    def _is_written(self, is_end: bool) -> bool:
        """Says the first failure, and the first success after it."""
        run = self._plan.run
        try:
            self._write(is_end)
        except Exception as error:  # noqa: BLE001  whatever a client raises: without this process nothing would be kept
            if not self._pause_s:
                print(f"slipway: the record cannot be kept in {run}: {why_not(error)}; trying on", flush=True)
            return False
        if self._pause_s:
            print(f"slipway: the record is kept in {run} again", flush=True)
        return True

    def _write(self, is_end: bool) -> None:
        status = read_status(self._directory)
        if status is None or (status.phase in _NOT_BEGUN and not is_end):
            return
        plan = self._plan
        if not self._start_is_kept:
            self._put(run_objects.start_key(plan.index, plan.started), as_json(_start(plan, status)))
            self._start_is_kept, self._sent_step = True, (status.resumed_from or 0) - 1
        while (chunk := self._record.unsent()) and (is_end or self._is_due(chunk, status)):
            self._send(chunk)
        if is_end and status.phase.final:
            self._put(run_objects.end_key(plan.index, plan.started), as_json(status))

    def _is_due(self, chunk: Chunk, status: HostStatus) -> bool:
        return is_due(chunk.last, self._sent_step, status.saved or 0, self._now() - self._sent_at)

    def _send(self, chunk: Chunk) -> None:
        plan = self._plan
        name = run_objects.chunk_name(plan.started, self._chunks, chunk.first, chunk.last)
        self._put(f"{run_objects.chunks_of(plan.index)}/{name}", chunk.text.decode())
        self._record.sent(chunk)
        self._chunks, self._sent_step, self._sent_at = self._chunks + 1, chunk.last, self._now()


def is_due(newest: int, sent: int, saved: int, waited_s: float) -> bool:
    """Whether lines up to step `newest` are written now, with those up to step `sent` written `waited_s` ago.

    saved: steps in the newest checkpoint, none of which the next start does again: they are written first of all.
    """
    return sent < saved - 1 <= newest or waited_s >= EVERY_S


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a record, whose bytes before `ends` are in the bucket with them."""

    text: bytes
    ends: int

    @property
    def first(self) -> int:
        """Step of the first line."""
        return _step(self.text[: self.text.index(b"\n")])

    @property
    def last(self) -> int:
        return _step(self.text.splitlines()[-1])


class KeptRecord:
    """A host's record of steps, and how many of its bytes are in the bucket: a number in a file beside it.

    The number is asked for each time: the training's process may have fetched the record meanwhile, and the keeper of a
    start that was killed may be at its end.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._mark = record.with_suffix(".kept")

    def unsent(self) -> Chunk | None:
        """What is new, as much as goes into one object; None where nothing is."""
        begins = int(self._mark.read_text()) if self._mark.exists() else 0
        try:
            with self._record.open("rb") as file:
                file.seek(begins)
                text = file.read(_CHUNK_BYTES)
        except FileNotFoundError:
            return None
        whole = text[: text.rfind(b"\n") + 1]
        return Chunk(whole, begins + len(whole)) if whole else None

    def sent(self, chunk: Chunk) -> None:
        """A kill before this leaves lines that are written twice, which says nothing else."""
        self._replace(self._mark, str(chunk.ends))

    def begin_with(self, text: str) -> None:
        """A record that is in the bucket already."""
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self._replace(self._mark, str(len(text.encode())))
        self._replace(self._record, text)

    def _replace(self, path: Path, text: str) -> None:
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(text)
        partial.replace(path)


def fetch(plan: Plan, run: Any) -> None:
    """On a host whose disk is new: the newest lines of its record, by which a bad step is told.

    run: the run's path in the bucket, whose errors are raised: a checkpoint would not be read either.
    """
    record = Path(plan.metrics_record)
    if record.exists():
        return
    chunks = run / run_objects.chunks_of(plan.index)
    try:
        names = run_objects.chunks_in_order(entry.name for entry in chunks.iterdir())
    except FileNotFoundError:
        return
    text, lines = "", 0
    while names and lines < _FETCHED_LINES:
        text = (chunks / names.pop()).read_text() + text
        lines = text.count("\n")
    if text:
        KeptRecord(record).begin_with(text)
        print(f"slipway: this host's record is not on its disk: {lines} lines of it are from {chunks}", flush=True)


def _start(plan: Plan, status: HostStatus) -> HostStart:
    return HostStart(
        host=plan.index,
        hosts=plan.count,
        name=platform.node(),
        bundle=plan.bundle,
        coordinator=plan.coordinator,
        started=plan.started,
        steps=plan.steps,
        resumed_from=status.resumed_from,
    )


def as_json(words: HostStart | HostStatus) -> str:
    return f"{json.dumps(dataclasses.asdict(words), indent=1)}\n"


def _step(line: bytes) -> int:
    return int(json.loads(line)["step"])


def why_not(error: Exception) -> str:
    """What a client of a bucket has raised, as a sentence."""
    return str(bucket_error([error]) or sentence(error))


def main(plan_path: Path) -> NoReturn:
    """Until the launcher closes the pipe, by which its own end is noticed too."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they may go to the whole group; the launcher decides
    plan = load(plan_path)
    keeper = RecordKeeper(plan, plan_path.parent, lambda key, text: put(plan.run, key, text))
    over = threading.Event()
    threading.Thread(target=_hear_the_end, args=(over,), daemon=True).start()
    while not over.wait(_POLL_S):
        keeper.go_on()
    sys.exit(not keeper.finish())


def _hear_the_end(over: threading.Event) -> None:
    os.read(0, 1)
    signal.alarm(LAST_S)  # ends this process, whatever its client waits for
    over.set()


def put(run: str, key: str, text: str) -> None:
    """An object of a run."""
    from etils import epath  # here: launch imports this module, and a start has other things to do first

    path: Any = epath.Path(run)
    (path / key).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
