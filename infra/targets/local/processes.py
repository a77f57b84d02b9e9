"""Host processes on this machine: start one detached, find it again, end it with everything it started.

A host's processes are those whose environment carries SLIPWAY_HOST_DIR=<its directory>: the environment is inherited,
so a child that made a session of its own, or one started just before an engine was killed, is still found. A pid is
never trusted alone: psutil compares the start time before it signals.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from infra import labelled_processes

LABEL = "SLIPWAY_HOST_DIR"


def start_detached(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path
) -> psutil.Process:
    """Start `command` in a session of its own, labelled with `directory`, its output appended to `log`."""
    with log.open("ab") as sink:
        started = subprocess.Popen(
            command,
            env={**environment, LABEL: str(directory)},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started.returncode = 0  # it outlives us on purpose, of which a Popen that is collected would complain
    return psutil.Process(started.pid)


def labelled(root: Path) -> list[psutil.Process]:
    """Every live process of the hosts whose directory is `root` or lies below it."""
    return labelled_processes.labelled(LABEL, lambda directory: f"{directory}{os.sep}".startswith(f"{root}{os.sep}"))


def find(pid: int, started: float) -> psutil.Process | None:
    """The process of that pid and start time (seconds since the epoch), or None: a reused pid is somebody else."""
    try:
        process = psutil.Process(pid)
        # psutil derives the start time from boot time, which a clock step can shift by a little.
        return process if abs(process.create_time() - started) < 2.0 and labelled_processes.is_alive(process) else None
    except psutil.Error:
        return None


def kill_all(root: Path) -> int:
    """SIGKILL everything labelled below `root` until a scan finds nothing; how many were ended."""
    ended = 0
    while processes := labelled(root):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        gone, _ = psutil.wait_procs(processes, timeout=5)
        ended += len(gone)
    return ended
