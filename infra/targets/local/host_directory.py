"""Hosts of a local stack on this machine: their directories, starting, stopping, and what state they are in.

Owns `host.json` (which process a host is and what started it) and reads `status.json` (what the host says of itself,
training/host_status.py). The provider and the day-2 command both stand on it; neither needs the other to run.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from infra.host_software.installation import COMMAND, Installation
from infra.paths import RUN_SPEC
from infra.targets.local import processes
from infra.targets.phases import LOST, RUNNING
from training.host_status import FILE_NAME, HostStatus, Phase, read_status

RECORD = "host.json"
LOG = "host.log"
STOP_GRACE_S = 300.0  # SIGTERM saves a checkpoint first, however busy the machine; after that the group is killed
POLL_S = 0.2

# What a host inherits; the rest of the operator's environment (credentials, PYTHONPATH) is not its business.
_INHERITED = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_INHERITED_PREFIXES = ("UV_", "PIP_", "OPENBLAS_", "OMP_")


@dataclass(frozen=True)
class HostRecord:
    """One host: how to start it, and the process it is now. `started` is the start time in seconds since the epoch."""

    index: int
    count: int
    coordinator: str
    artifacts: str  # the store that bundle and wheels come from
    bundle: str  # its hash
    root: str  # where hosts of this machine keep bundles and environments
    cache: str  # compiled programs
    pid: int = 0
    started: float = 0.0

    def process(self) -> psutil.Process | None:
        return processes.find(self.pid, self.started)


@dataclass(frozen=True)
class HostState:
    """What is known of a host. `phase` is the host's own word, or `lost` where its process is gone without one."""

    directory: Path
    record: HostRecord
    status: HostStatus | None
    phase: str
    reason: str

    @property
    def healthy(self) -> bool:
        return self.phase in RUNNING or self.phase == Phase.FINISHED


def read_record(directory: Path) -> HostRecord | None:
    """The host of a directory, or None where there is none (or its record was cut short by a kill)."""
    try:
        return HostRecord(**json.loads((directory / RECORD).read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    """A reader sees the old text or the new one."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def environment(record: HostRecord) -> dict[str, str]:
    """What a host's processes find in theirs, but for the label."""
    inherited = {
        key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith(_INHERITED_PREFIXES)
    }
    own = {
        "SLIPWAY_CACHE_DIR": record.cache,
        "SLIPWAY_HOST_INDEX": str(record.index),
        "SLIPWAY_HOST_COUNT": str(record.count),
        "SLIPWAY_COORDINATOR": record.coordinator,
    }
    return inherited | Installation(record.artifacts, record.bundle, record.root).variables | own


def start(directory: Path, record: HostRecord, run_spec: str) -> HostRecord:
    """Start a host that is not running. Its log goes on in the same file; its status begins anew."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE_NAME).unlink(missing_ok=True)
    _write(directory / RUN_SPEC, run_spec)
    process = processes.start_detached(COMMAND, environment(record), directory, directory / LOG)
    running = replace(record, pid=process.pid, started=process.create_time())
    _write(directory / RECORD, json.dumps(asdict(running), indent=1) + "\n")
    return running


def ask_to_stop(directory: Path) -> None:
    """SIGTERM to the host: it saves a checkpoint and ends; one host is enough to stop the whole run."""
    record = read_record(directory)
    process = record.process() if record else None
    if process:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()


def stop(directory: Path, progress: Callable[[str], None], wait: Callable[[float], None]) -> None:
    """Let the host save and end, then end whatever it started and left. `wait` may raise to give up waiting."""
    record = read_record(directory)
    ask_to_stop(directory)
    began = time.monotonic()
    while record and record.process() and time.monotonic() - began < STOP_GRACE_S:
        progress(f"saving a checkpoint and stopping, {time.monotonic() - began:.0f}s")
        wait(POLL_S)
    processes.kill_all(directory)


def state(directory: Path) -> HostState | None:
    """What a host is doing, from its word and its process; None where there is no host."""
    record = read_record(directory)
    if record is None:
        return None
    alive = record.process() is not None
    status = read_status(directory)  # after the process: a host that ends in between has said its last word
    phase = status.phase if status else Phase.BOOTSTRAPPING
    reason = (status.reason if status else None) or ""
    if phase in RUNNING and not alive:
        at = f" at step {status.step} of {status.steps}" if status and status.step else f" while {phase}"
        return HostState(directory, record, status, LOST, f"its process was killed{at} and could not say why")
    return HostState(directory, record, status, phase, reason)


def states(hosts: Path) -> list[HostState]:
    """All hosts of a stack, by index."""
    read = [state(directory) for directory in hosts.iterdir()] if hosts.is_dir() else []
    return sorted((host for host in read if host), key=lambda host: host.record.index)


def health(directory: Path) -> str:
    """`ok`, or why this host cannot go on: its own end, or a peer's, since a run needs all its hosts."""
    for host in states(directory.parent):
        if not host.healthy:
            return f"host {host.record.index} {host.phase}: {host.reason}".rstrip(": ")
    return "ok"
