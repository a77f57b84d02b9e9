"""Worker processes and how far they are.

Owns starting them so that they die with their parent, handing out work in bounded amounts, and the progress display.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn, Self

from tqdm import tqdm

from training.data.partial import WorkError

_PR_SET_PDEATHSIG = 1
_TICK_S = 1.0
_LINE_EVERY_S = 5.0


class PreparationProgress:
    """A bar on a terminal; a line about every five seconds elsewhere. On stderr. Amounts are bytes."""

    def __init__(self, stage: str, total: int) -> None:
        self._stage, self._total, self._done, self._fresh = stage, total, 0, 0
        self._started = self._spoke = time.monotonic()
        self._bar: tqdm[NoReturn] | None = None
        if sys.stderr.isatty():
            self._bar = tqdm(total=total, desc=stage, unit="B", unit_scale=True, leave=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def skip(self, amount: int) -> None:
        """Count what an earlier process has done."""
        self._done += amount

    def advance(self, amount: int) -> None:
        """Count `amount` more bytes; 0 shows that work goes on."""
        self._done += amount
        self._fresh += amount
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._done - self._bar.n)
            self._bar.refresh()
        elif now - self._spoke >= _LINE_EVERY_S:
            self._spoke = now
            seconds = now - self._started
            share = f"{self._done / self._total:.0%} of {self._total / 1e6:,.1f} MB, " if self._total else ""
            speed = f"{self._fresh / seconds / 1e6:.1f} MB/s, " if self._total else ""
            print(f"{self._stage}: {share}{speed}{seconds:.0f} s", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Job:
    """Work for one worker, done where `result` exists; `size` is its share of the progress, in bytes."""

    work: Callable[[], None]
    result: Path
    size: int


@dataclass(frozen=True)
class Workers:
    """As many processes as work at a time."""

    executor: ProcessPoolExecutor
    processes: int

    def run(self, stage: str, jobs: Sequence[Job]) -> None:
        """Do what is not done. Few jobs are under way at a time, so memory does not grow with their number."""
        undone = [job for job in jobs if not job.result.exists()]
        total = sum(job.size for job in jobs)
        waiting = iter(undone)
        running: dict[Future[None], Job] = {}
        with PreparationProgress(stage, total) as progress:
            progress.skip(total - sum(job.size for job in undone))
            while True:
                for job in islice(waiting, 2 * self.processes - len(running)):
                    running[self.executor.submit(job.work)] = job
                if not running:
                    return
                finished, _ = wait(running, _TICK_S, FIRST_COMPLETED)
                progress.advance(0)
                for future in finished:
                    future.result()
                    progress.advance(running.pop(future).size)


@contextmanager
def pool(processes: int) -> Iterator[Workers]:
    """Fresh interpreters (no fork of a process that may have threads), ended with this one."""
    executor = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _join_family, (os.getpid(),))
    try:
        yield Workers(executor, processes)
    except BrokenProcessPool as error:
        raise WorkError(
            "a worker process was ended from outside, perhaps for lack of memory: run again with fewer --processes, "
            "what is finished is kept"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _join_family(parent: int) -> None:
    """Die with the parent, even if it is killed; leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
