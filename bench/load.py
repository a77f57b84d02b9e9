"""Whether a loaded machine is taken for a standstill: real trainings of two hosts beside processes that compute.

As many of those as there are cores, with the same weight as a host's training has. Every training that does not end by
its last step counts, whatever ended it: a standstill, a host that was missed, a process that said nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.record import Figure, reaches
from tests.training.cluster import Cluster, LaunchedHost
from tests.training.tiny import TINY
from training import paces
from training.exit_codes import ExitCode
from training.plan import load
from training.run_spec import RunSpec
from training.standstill import Activity

RUNS, STEPS, SAVE_EVERY = 20, 100, 20
WINDOW_S, HEARTBEAT_S = 10, 15  # a sixth of the usual window, the usual heartbeat
_BUSY = "import os\nwhile os.getppid() == {parent}: sum(range(100000))"


@dataclass(frozen=True)
class Ended:
    """`why`, if it was not by its last step; `longest_s`: a step or a save."""

    why: str
    longest_s: float


def figures(runs: int = RUNS) -> list[Figure]:
    """Needs the hosts' Python in SLIPWAY_HOST_PYTHON."""
    with _busy_cores(), tempfile.TemporaryDirectory() as name:
        ended = [_run(Path(name) / str(number), Path(name) / "cache") for number in range(runs)]
    alarms = [run.why for run in ended if run.why]
    detail = {"window_s": WINDOW_S, "longest_step_or_save_s": max(run.longest_s for run in ended), "alarms": alarms}
    return [Figure("false_alarms_under_load", len(alarms), f"of {runs}", "<= 0", reaches(len(alarms), "<= 0"), detail)]


@contextmanager
def _busy_cores() -> Generator[None]:
    """Until the context is left or this process has ended."""
    command = [sys.executable, "-c", _BUSY.format(parent=os.getpid())]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _run(directory: Path, cache: Path) -> Ended:
    fields = TINY | {"checkpoint_period": SAVE_EVERY}
    spec = RunSpec("bench", "run", "cpu", 1, 2, 2, STEPS, str(directory / "out"), None, fields)
    cluster = Cluster(directory, cache, HEARTBEAT_S, WINDOW_S, python=os.environ["SLIPWAY_HOST_PYTHON"])
    try:
        hosts = cluster.run(spec)
    finally:
        cluster.clean_up()
    why = [str(host.status.reason) for host in hosts if host.process.returncode != ExitCode.FINISHED]
    return Ended("; ".join(why), max(map(_longest_s, hosts)))


def _longest_s(host: LaunchedHost) -> float:
    took = paces.read(host.directory, paces.shape(load(host.directory / "plan.json"))).took
    return max((took[each].longest for each in (Activity.STEP, Activity.SAVE) if each in took), default=0.0)


if __name__ == "__main__":
    for measured in figures(*map(int, sys.argv[1:2])):
        print(measured.to_json())
