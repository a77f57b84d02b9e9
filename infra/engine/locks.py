"""Locks of the file backend: who holds a stack, and whether that engine is surely dead.

Owns: the files `.pulumi/locks/organization/<project>/<stack>/<id>.json` and the processes they name. Refuses to own
when a lock is removed (infra/engine/wrapper.py). Standard library only: it runs at every command.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True)
class Lock:
    """One lock file. pid, user, host and since are None where the file cannot be read."""

    path: Path
    stack: str
    pid: int | None = None
    user: str | None = None
    host: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Process:
    """A process that runs now; started in seconds since the epoch, None where the system does not tell."""

    name: str
    started: float | None


def parse_lock(path: Path, text: str) -> Lock:
    stack = path.parent.name
    try:
        fields = json.loads(text)
        since = datetime.fromisoformat(fields["timestamp"])
        return Lock(path, stack, int(fields["pid"]), str(fields["username"]), str(fields["hostname"]), since)
    except (ValueError, KeyError, TypeError):
        return Lock(path, stack)


def read_locks(state: Path, project: str, stack: str | None) -> list[Lock]:
    """Locks of one stack, or of every stack of the project where none is named."""
    folder = state / ".pulumi" / "locks" / "organization" / project
    locks: list[Lock] = []
    for path in sorted(folder.glob(f"{stack or '*'}/*.json")):
        with contextlib.suppress(FileNotFoundError):  # its engine ended between the listing and here
            locks.append(parse_lock(path, path.read_text()))
    return locks


def find_process(pid: int) -> Process | None:
    """None where no such process runs; a zombie does not run."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # another user's
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
    except OSError:
        return Process("", None)
    # the name stands in brackets and may hold spaces and brackets itself
    name, fields = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    started = int(boot[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK") if boot else None
    return Process(name, started)


def holder_is_gone(lock: Lock, hostname: str, process: Process | None) -> bool:
    """Whether the engine that took the lock is surely dead. process: what runs under the lock's pid on this host."""
    if lock.pid is None or lock.since is None or lock.host != hostname:
        return False
    if process is None:
        return True
    # A clock that was set forward makes a live engine look younger than its lock, so an engine's pid keeps the lock.
    if process.started is None or process.name == "pulumi":
        return False
    return process.started > lock.since.timestamp() + 2


def explain(lock: Lock) -> str:
    cancel = f".venv/bin/pulumi cancel --stack {lock.stack}"
    if lock.pid is None or lock.since is None:
        return (
            f"stack {lock.stack!r} has an unreadable lock ({lock.path}); if no pulumi is at work on it, run: {cancel}"
        )
    holder = f"{lock.user}@{lock.host} (pid {lock.pid})"
    since = lock.since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"stack {lock.stack!r} is in use by {holder} since {since}; wait for it, or if it never ends, run: {cancel}"
