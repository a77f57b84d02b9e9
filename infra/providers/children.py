"""Child processes of the provider: run one with its latest line as progress, and end them all when the engine is gone.

`run` waits for the child and never for its output: a process that floods the pipe or holds it open, also from a session
of its own, is ended with the child, at the deadline or on Ctrl-C. Of the output only what is shown stays in memory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import selectors
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

import psutil

from infra.labelled_processes import labelled
from infra.providers.resource import Context, ResourceError

LABEL = "SLIPWAY_CHILD"  # in the environment of a child and of whatever it starts
_TAIL_LINES = 3
_LINE_BYTES = 400  # the beginning of a line; the rest of a longer one is dropped
_SHOW_EVERY_S = 0.1
_SCANS = 5  # for what a family starts while it is ended
_END_S = 5.0  # how long a killed process may take: one that hangs in the kernel is left to it


@dataclass(frozen=True)
class _Family:
    """A child and everything that it started."""

    child: subprocess.Popen[bytes]
    label: str


_running: set[_Family] = set()


@dataclass
class _Output:
    """One pipe of a child, read without waiting: the beginnings of its last lines."""

    pipe: IO[bytes]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    _rest: bytes = b""  # a line that has no end yet

    def read(self) -> int:
        """Take what is there; how many bytes that was. 0: the pipe is closed, or empty now."""
        try:
            chunk = os.read(self.pipe.fileno(), fcntl.fcntl(self.pipe, fcntl.F_GETPIPE_SZ))
        except BlockingIOError:
            return 0
        *ended, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[:_LINE_BYTES]
        self._keep(ended)
        return len(chunk)

    def read_to_end(self) -> None:
        """Take what an ended child has left: a pipe holds that, however much others go on writing."""
        left = fcntl.fcntl(self.pipe, fcntl.F_GETPIPE_SZ)
        while left > 0 and (size := self.read()):
            left -= size
        self._keep([self._rest])

    def _keep(self, ended: list[bytes]) -> None:
        for line in ended:
            if text := line[:_LINE_BYTES].decode(errors="replace").strip():
                self.lines.append(text)


def run(context: Context, what: str, command: Sequence[str], environment: Mapping[str, str], directory: str) -> str:
    """Run `command` in `directory`, showing its latest line; returns its last line of standard output.

    Raises ResourceError with its last lines if it fails; Ctrl-C and the deadline end it. What it leaves running is
    ended in any case.
    """
    label = secrets.token_hex(8)
    child = subprocess.Popen(
        command,
        env={**os.environ, **environment, LABEL: label},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    family = _Family(child, label)
    _running.add(family)
    try:
        assert child.stdout and child.stderr
        with child.stdout, child.stderr:
            output, errors = _Output(child.stdout), _Output(child.stderr)
            _follow(context, what, child, (output, errors))
    finally:
        _end(family)
        _running.discard(family)
    if child.returncode:
        last_lines = " ".join(errors.lines or output.lines)
        raise ResourceError(f"{what} failed: {last_lines or f'exit code {child.returncode}'}")
    return output.lines[-1] if output.lines else ""


def _follow(context: Context, what: str, child: subprocess.Popen[bytes], outputs: Sequence[_Output]) -> None:
    """Show the latest line until the child ends. Raises CancelledError or DeadlineError."""
    latest, shown, shown_at = "", "", context.now() - _SHOW_EVERY_S
    with selectors.DefaultSelector() as selector:
        for output in outputs:
            os.set_blocking(output.pipe.fileno(), False)
            selector.register(output.pipe, selectors.EVENT_READ, output)
        while not _has_ended(child):
            context.wait(0)
            for key, _ in selector.select(_SHOW_EVERY_S):
                output: _Output = key.data
                if not output.read():
                    selector.unregister(key.fileobj)
                elif output.lines:
                    latest = output.lines[-1]
            if latest != shown and context.now() - shown_at >= _SHOW_EVERY_S:
                context.report(f"{what}: {latest}")
                shown, shown_at = latest, context.now()
    for output in outputs:
        output.read_to_end()


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Without taking its exit code: until then nobody else can get its number, which is also its group's."""
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # end_all has


def _end(family: _Family) -> None:
    child = family.child
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)  # before psutil does, which would take its exit code
    for _ in range(_SCANS):
        members = labelled(LABEL, lambda value: value == family.label)
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        if not members:
            break
        psutil.wait_procs(members, timeout=_END_S)


def end_all() -> None:
    """Called when the engine is gone: nothing of ours goes on preparing for nobody."""
    for family in list(_running):
        _end(family)
