"""Child processes of the provider: run one with its lines as progress, and end them all when the engine is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from queue import Empty, Queue
from typing import IO

from infra.providers.resource import Context, ResourceError

_running: set[subprocess.Popen[str]] = set()
_TAIL_LINES = 3


def run(context: Context, what: str, command: Sequence[str], environment: Mapping[str, str], directory: str) -> str:
    """Run `command` in `directory`, showing each of its lines; returns its last line of standard output.

    Raises ResourceError with its last lines if it fails; Ctrl-C and the deadline end it.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _running.add(process)
    lines: Queue[str] = Queue()
    output: deque[str] = deque(maxlen=_TAIL_LINES)
    errors: deque[str] = deque(maxlen=_TAIL_LINES)
    readers = [_reader(process.stdout, output, lines), _reader(process.stderr, errors, lines)]
    try:
        while process.poll() is None:
            try:
                context.report(f"{what}: {lines.get_nowait()}")
            except Empty:
                context.wait(0.1)
        for reader in readers:
            reader.join()
    finally:
        _end(process)
        _running.discard(process)
    if process.returncode:
        raise ResourceError(f"{what} failed: {' '.join(errors or output) or f'exit code {process.returncode}'}")
    return output[-1] if output else ""


def _reader(stream: IO[str] | None, tail: deque[str], lines: Queue[str]) -> threading.Thread:
    def read() -> None:
        for line in stream or ():
            if text := line.strip():
                tail.append(text)
                lines.put(text)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_all() -> None:
    """Called when the engine is gone: nothing of ours goes on preparing for nobody."""
    for process in list(_running):
        _end(process)
