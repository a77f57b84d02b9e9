"""What a training says while it runs: MaxText's metrics and log become the host's status and a lasting record.

Owns reading MaxText's metrics file, speed from wall time, and `metrics/host-N.jsonl` of the run. Refuses to own how a
training ended (training/trainer.py). Two traps shape it: MaxText empties its metrics file whenever an evaluation starts
(common/metric_logger.py: any line of "step 0" truncates, evaluation steps included), and its `seconds` per step are
dispatch time, so speed comes from when a loss was read back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.host_status import HostStatus, Phase, write_status
from training.loss_judge import FINITE, USUAL_OF, BadStep, Bounds, LossJudge
from training.standstill import LEAST_WINDOW_S, Activity, Lived, Measures, Pace, Standstill
from training.step_record import cut_half_a_line, newest_steps
from training.step_times import NEWEST, StepClock


class MetricsTail:
    """New lines of a JSON-lines file that its writer may truncate at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._last = b""  # the line before the offset: if it is no longer there, the file was emptied

    def read(self) -> list[dict[str, Any]]:
        """Lines completed since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset - len(self._last))
                data = file.read()
                if data.startswith(self._last):
                    data = data[len(self._last) :]
                else:
                    self._offset, self._last = 0, b""
                    file.seek(0)
                    data = file.read()
        except FileNotFoundError:
            return []
        complete = data[: data.rfind(b"\n") + 1]
        lines = complete.splitlines(keepends=True)
        if lines:
            self._offset += len(complete)
            self._last = lines[-1]
        return [json.loads(line) for line in lines]


WINDOW_STEPS = 10


@dataclass
class SpeedMeter:
    """Tokens per second from windows of at least WINDOW_STEPS steps, each ending when a loss was read back.

    Time spent evaluating is not training and is left out; saving a checkpoint is part of training and stays in.
    """

    tokens_per_step: int
    tokens_per_s: float | None = None
    _began: tuple[int, float] | None = None
    _paused_s: float = 0.0

    def step(self, completed: int, at: float) -> None:
        if self._began is None:
            self._start(completed, at)
            return
        steps = completed - self._began[0]
        if steps >= WINDOW_STEPS:
            self.tokens_per_s = steps * self.tokens_per_step / max(at - self._began[1] - self._paused_s, 1e-9)
            self._start(completed, at)

    def pause(self, seconds: float) -> None:
        self._paused_s += seconds

    def _start(self, completed: int, at: float) -> None:
        self._began, self._paused_s = (completed, at), 0.0

    def seconds_for(self, steps: int) -> float | None:
        return steps * self.tokens_per_step / self.tokens_per_s if self.tokens_per_s else None


_STEP = re.compile(r"completed step: (?P<step>\d+)")
_STOPPED = re.compile(r"^(Training stopped: |Aborting training due to )(?P<reason>.*)")
_EVALUATION_STARTS = "Starting eval after train step"
_EVALUATION_ENDS = "Completed eval after train step"
_SAVE_STARTS = "Saving checkpoint at step"
_SAVE_ENDS = re.compile(r"\[step=(?P<step>\d+)\] CheckpointManager Save Finalize is done on all hosts")
_ABOUT_TO_TRUNCATE = "Completed eval step: 0,"


@dataclass
class Progress:
    """How far a training is, from MaxText's log records (when) and metrics lines (what)."""

    status: HostStatus
    speed: SpeedMeter
    pace: Pace = field(default_factory=lambda: Pace(LEAST_WINDOW_S))
    judge: LossJudge = field(default_factory=lambda: LossJudge(FINITE))
    clock: StepClock = field(default_factory=StepClock)
    stop_reason: str | None = None
    _evaluation_began: float | None = None

    def log_record(self, message: str, at: float, lived: float = 0.0) -> None:
        """One line of MaxText's or Orbax's log, at its wall-clock time and at that of Lived."""
        if found := _STEP.search(message):
            completed = int(found["step"]) + 1
            self.speed.step(completed, at)
            self.clock.loss_read(completed - 1, at, evaluating=self._evaluation_began is not None)
            self.pace.step(completed, lived)
            if completed == self.status.steps:
                self.pace.over()
            self.status = replace(
                self.status,
                phase=Phase.TRAINING,
                step=completed,
                first_step_at=self.status.first_step_at or at,
                tokens_per_s=self.speed.tokens_per_s,
                eta_s=self.speed.seconds_for(self.status.steps - completed),
            )
        elif found := _STOPPED.search(message):
            self.stop_reason = found["reason"]
            self.pace.over()
        elif _SAVE_STARTS in message:
            self.pace.began(Activity.SAVE, lived)
        elif found := _SAVE_ENDS.search(message):
            self.pace.ended(Activity.SAVE, lived)
            self.status = replace(self.status, saved=int(found["step"]) + 1)
        elif message.startswith(_EVALUATION_STARTS):
            self._evaluation_began = at
            self.pace.began(Activity.EVALUATION, lived)
        elif message.startswith(_EVALUATION_ENDS) and self._evaluation_began is not None:
            self.speed.pause(at - self._evaluation_began)
            self.pace.ended(Activity.EVALUATION, lived)
            self._evaluation_began = None

    def metrics_lines(self, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The lines as they are recorded, with their steps' times."""
        lines = self.clock.timed(lines)
        self.judge.lines(lines)
        for line in lines:
            if "learning/loss" in line:
                self.status = replace(self.status, loss=line["learning/loss"])
            else:
                self.status = replace(self.status, heldout_loss=line["eval/avg_loss"])
        if lines and (speed := self.clock.speed()):
            self.status = replace(self.status, step_s=speed.step_s, tflops_per_s=speed.tflops_per_s)
        return lines


def lasting(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines about a training step or a whole evaluation; those of single evaluation batches are left out."""
    return [line for line in lines if "learning/loss" in line or "eval/total_loss" in line]


_PERIOD_S = 0.5


_HARMLESS = "Failed to remove checkpoint"  # Orbax: an old one stays, and the training goes on


@dataclass(frozen=True)
class Listeners:
    """Who an observer tells what it sees; all but `failed` are called by its own thread.

    `failed` hears each exception that a library logs in a thread, where nothing but the log would show it; `went_bad`
    of a step beyond its bounds, maybe more than once; `keep` what has been measured, whenever that is something else,
    and may raise OSError.
    """

    failed: Callable[[BaseException], None] = lambda error: None
    stands_still: Callable[[Standstill], None] = lambda standstill: None
    went_bad: Callable[[BadStep], None] = lambda bad: None
    keep: Callable[[Measures], None] = lambda measures: None


class Observer(logging.Handler):
    """Watches MaxText from beside it: a handler for its log, and a thread that reads its metrics and writes the status.

    The handler reads the metrics file just before MaxText empties it, so no line is lost. notice_s: how long before a
    preemption it is announced; a warning says that a stop takes longer.
    """

    def __init__(
        self,
        host_directory: Path,
        source: Path,
        record: Path,
        status: HostStatus,
        tokens_per_step: int,
        listeners: Listeners = Listeners(),
        pace: Pace | None = None,
        held_to: Bounds = FINITE,
        notice_s: float = math.inf,
    ) -> None:
        super().__init__(logging.INFO)
        self._tell = listeners
        self._lived, self._notice_s = Lived(_PERIOD_S), notice_s
        pace = pace or Pace(LEAST_WINDOW_S)
        self.progress = Progress(status, SpeedMeter(tokens_per_step), pace, LossJudge(held_to))
        self._kept = pace.measures()
        self._host_directory = host_directory
        self._record = record
        self._tail = MetricsTail(source)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slipway-status", daemon=True)

    def start(self) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        cut_half_a_line(self._record)
        begins = self.progress.status.resumed_from or 0
        before = newest_steps(self._record, max(USUAL_OF, NEWEST), before=begins)
        self.progress.judge.lines(before[-USUAL_OF:])
        self.progress.clock.begin_with(before)
        self.progress.judge.begin_at(begins)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        # under the handler's lock, as `refresh` is
        self.progress.log_record(message, record.created, self._lived.now())
        if message.startswith(_ABOUT_TO_TRUNCATE):
            try:
                self._drain()
            except OSError:
                self.handleError(record)
        error = record.exc_info[1] if record.exc_info else None
        in_background = record.thread != threading.main_thread().ident
        if error and record.levelno >= logging.ERROR and in_background and not message.startswith(_HARMLESS):
            self._tell.failed(error)

    def refresh(self, now: float) -> HostStatus:
        """Read what is new and return the status as of `now`."""
        with self.lock:  # pyright: ignore[reportOptionalContextManager]  (createLock has run)
            pace, lived = self.progress.pace, self._lived.now()
            pace.watched(lived)
            since = now - pace.still(lived) if pace.is_slow(lived) else None
            at = f"after step {self.progress.status.step}, {pace.activity()}"
            self.progress.status = replace(self.progress.status, updated=now, still_since=since, at=at)
            if (stop_s := pace.stop_s()) and sum(stop_s) > self._notice_s:
                self._warn(*stop_s)
            if standstill := pace.standstill(lived):  # judged first, for a full disk ends _drain
                self._tell.stands_still(standstill)
            self._drain()
            if bad := self.progress.judge.bad:
                self._tell.went_bad(bad)
            return self.progress.status

    def _warn(self, step_s: float, save_s: float) -> None:
        """Once, with what was measured first: at the start, if an earlier one has measured."""
        print(
            f"slipway: a preemption is announced {self._notice_s:.0f} s before, and a step with a save takes "
            f"{step_s + save_s:.0f} s here ({step_s:.1f} s and {save_s:.1f} s at the longest): the steps since the "
            f"last checkpoint will be lost; save as often as that is worth",
            flush=True,
        )
        self._notice_s = math.inf

    def stop(self) -> None:
        """End the thread; the status is the caller's from here on."""
        self._end.set()
        self._thread.join()

    def _drain(self) -> None:
        lines = self.progress.metrics_lines(lasting(self._tail.read()))
        if lines:
            with self._record.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    def _watch(self) -> None:
        while not self._end.wait(_PERIOD_S):
            with contextlib.suppress(OSError):  # a full disk ends the training with its own reason; go on to report it
                write_status(self._host_directory, self.refresh(time.time()))
                self._keep_measures()
        with contextlib.suppress(OSError):
            self._keep_measures()

    def _keep_measures(self) -> None:
        with self.lock:  # pyright: ignore[reportOptionalContextManager]
            measures = self.progress.pace.measures()
        if measures != self._kept:
            self._tell.keep(measures)
            self._kept = measures
