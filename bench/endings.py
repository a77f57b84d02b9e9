"""How long it takes until one host's end is the other's: real trainings of two hosts, of which one comes to harm.

Each is timed by the clock of this machine from the harm to the end of the other host's launcher, named in its status.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.record import Figure, figure
from tests.training.cluster import Cluster, LaunchedHost
from tests.training.small_disk import SmallDisk
from tests.training.tiny import TINY
from training.run_spec import RunSpec

SHORT, LONG = 5, 3  # repetitions
WINDOW_S, HEARTBEAT_S = 20, 15
_FIRST_STEPS = 30
_FULL = (  # a save that failed may have made room again before anybody looked
    'while kill -0 $pid0 && [ "$(df --output=avail $DISK | tail -n 1)" -gt 64 ]; do sleep 0.02; done; '
    "date +%s.%N > full"
)


def figures(short: int = SHORT, long: int = LONG) -> list[Figure]:
    """Seconds; needs the hosts' Python in SLIPWAY_HOST_PYTHON."""
    unmeasured_s = 3600
    full = [_full_disk() for _ in range(short)]
    killed = [_harmed(_kill_training, "host 1: killed (SIGKILL)", WINDOW_S) for _ in range(short)]
    gone = [_harmed(_kill_host, "host 1 was lost (", WINDOW_S) for _ in range(short)]
    frozen = [_harmed(_freeze, "stands still after step ", WINDOW_S, heartbeat_s=unmeasured_s) for _ in range(long)]
    silent = [_harmed(_freeze, "host 1 was lost (no sign of life", unmeasured_s) for _ in range(long)]
    return [
        figure("full_disk_to_both_ends", full, "s", "<= 15"),
        figure("killed_training_to_the_others_end", killed, "s", "<= 5"),
        figure("killed_host_to_the_others_end", gone, "s", "<= 5"),
        figure("frozen_host_to_the_others_end", frozen, "s", "<= 60", window_s=WINDOW_S),
        figure("frozen_host_in_windows", [seconds / WINDOW_S for seconds in frozen], "x", "<= 2"),
        figure("silent_host_by_heartbeat_alone", silent, "s", "<= 30", heartbeat_s=HEARTBEAT_S),
    ]


def _python() -> str:
    return os.environ["SLIPWAY_HOST_PYTHON"]


def _spec(output: Path, save_every: int) -> RunSpec:
    fields = TINY | {"checkpoint_period": save_every}
    return RunSpec("bench", "run", "cpu", 1, 2, 2, 1_000_000, str(output), None, fields)


def _full_disk() -> float:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        trial = SmallDisk(directory / "trial", directory / "cache", _python())
        trial.directory.mkdir()
        for status in trial.run(_spec(trial.disk, 4), "3m", _FULL):
            assert "no space left on the disk: " in str(status.reason), status
        return float((trial.directory / "ended").read_text()) - float((trial.directory / "full").read_text())


def _harmed(harm: Callable[[LaunchedHost], None], said: str, window_s: int, heartbeat_s: int = HEARTBEAT_S) -> float:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cluster = Cluster(directory, directory / "cache", heartbeat_s, window_s, python=_python())
        try:
            other, harmed = cluster.start(_spec(directory / "out", 100_000))
            other.wait_for_step(_FIRST_STEPS)
            began = time.monotonic()
            harm(harmed)
            other.end()
            took = time.monotonic() - began
            assert str(other.status.reason).startswith(said), other.status
            return took
        finally:
            cluster.clean_up()


def _kill_training(host: LaunchedHost) -> None:
    os.kill(host.trainer, signal.SIGKILL)


def _kill_host(host: LaunchedHost) -> None:
    host.kill_group()


def _freeze(host: LaunchedHost) -> None:
    os.killpg(host.process.pid, signal.SIGSTOP)
