"""training/locks/made.sums: SHA-256 of what wheelhouses hold that no lock names, being made here of what a lock names.

That is uv's program out of its wheel, wheels with our patches in them, and wheels that are built of sources; each is
the same bytes on every machine. Lock and file are in the bundle, and hosts install nothing else, whatever a wheelhouse
in a bucket holds (training/bootstrap.sh). Owns the file. Refuses to own how they are made (build.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.artifacts.layout import sums_text
from infra.host_software.wheels.locks import LockError
from infra.paths import TRAINING

WRITE = "slipway wheels lock"


def made_path(training: Path = TRAINING) -> Path:
    return training / "locks" / "made.sums"


def made_sums(training: Path = TRAINING) -> str:
    """The file's text. Raises LockError, which names the command that writes it, where there is none."""
    try:
        return made_path(training).read_text()
    except FileNotFoundError:
        raise LockError(f"there is no training/locks/{made_path().name}; make it with: {WRITE}") from None


def write_made(objects: Mapping[str, str], training: Path = TRAINING) -> None:
    """objects: SHA-256 by file name, of every lock."""
    made_path(training).write_text(sums_text(dict(objects)))
