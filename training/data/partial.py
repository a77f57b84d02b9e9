"""The working directory of an unfinished preparation: what is done, who works on it, what it was for.

Owns atomic writes and the lock. Everything under `.partial/` may be lost; nothing in it is taken for complete before
its own rename.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


class WorkError(RuntimeError):
    """The machine stopped the work, not the corpus: what is finished stays, and running again continues."""


def write_atomically(path: Path, content: bytes) -> None:
    """The file is either absent or whole, also after a power cut."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def write_json(path: Path, document: Any) -> None:
    write_atomically(path, json.dumps(document).encode())


def read_json(path: Path) -> Any:
    """The document, or None where the step that writes it has not finished."""
    return json.loads(path.read_bytes()) if path.exists() else None


def sync_directory(path: Path) -> None:
    """Make renames within `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold `directory` for this process; the kernel lets go of it when the process ends, however it ends."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise WorkError(f"another process is preparing {directory}: wait for it, then run again") from error
    finally:
        os.close(descriptor)
