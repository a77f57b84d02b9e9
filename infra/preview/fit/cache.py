"""Verdicts that are known: those of shipped stacks, committed beside this module, and this machine's own.

A verdict is found by the key of its request alone, so none is ever stale: another lock, patch or run spec is another
key. A file that cannot be read as one is dropped and asked anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Generator
from pathlib import Path

from infra.paths import WORK
from infra.preview.fit.verdict import FitVerdict, VerdictError, from_text, to_text
from infra.sentences import SentenceError

SHIPPED = Path(__file__).with_name("verdicts")
JUDGED = SHIPPED / "judged"  # of what others measured, so that the estimate's errors are known without a compile
_POLL_S = 0.2


class CacheError(SentenceError, OSError):
    """A verdict cannot be kept; one sentence."""


def directory(work: Path = WORK) -> Path:
    return work / "cache" / "fit"


def find(key: str, work: Path = WORK) -> FitVerdict | None:
    for path in (SHIPPED / f"{key}.json", directory(work) / f"{key}.json", JUDGED / f"{key}.json"):
        try:
            return from_text(path.read_text(encoding="utf-8"), key)
        except FileNotFoundError:
            continue
        except (VerdictError, UnicodeDecodeError):
            if path.parent == directory(work):
                path.unlink(missing_ok=True)
    return None


def keep(verdict: FitVerdict, work: Path = WORK, into: Path | None = None) -> Path:
    """Write a verdict, whole or not at all. Raises CacheError."""
    path = (into or directory(work)) / f"{verdict.key}.json"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(to_text(verdict), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise CacheError(
            f"the verdict cannot be kept in {path.parent}: {error.strerror}; free some space and run this again"
        ) from None
    return path


@contextlib.contextmanager
def locked(key: str, timeout_s: float, work: Path = WORK) -> Generator[bool]:
    """Whether this process may compile `key`; another may hold it for `timeout_s`. It ends with its process."""
    path = directory(work) / f"{key}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise CacheError(f"{path} cannot be written: {error.strerror}; free some space and run this again") from None
    with handle:
        yield _wait(handle.fileno(), time.monotonic() + timeout_s)


def _wait(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        else:
            return True
