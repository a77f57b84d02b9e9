"""The artifact store: whole objects under keys, in a directory or a bucket; all but those of wanted.py never change.

Owns what a key is, the promises of `Store`, and the store that is a directory. Refuses to own what keys mean:
wheelhouses and bundles name their objects themselves. Stores that are buckets are gcs.py and s3.py;
opening.py has all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from infra.sentences import SentenceError

PARTIAL = ".partial"  # where a directory store keeps what is being written; no key may use the name
ABANDONED_S = 86_400.0  # a partial file that nobody wrote to for so long belongs to a process that was killed
PATIENCE_S = 120.0  # how long faults of the network are tried again


class StoreError(SentenceError):
    """What is wrong with a store or an object, in one sentence."""


class NoBucketError(StoreError):
    """There is no store of that name that this account can see."""


class NotPermittedError(StoreError):
    """This account may not do that."""


class NoObjectError(StoreError):
    """The store exists and has no such object."""


@dataclass(frozen=True)
class Entry:
    """An object as a listing shows it. size in bytes, updated with a time zone."""

    key: str
    size: int
    updated: datetime


class Store(Protocol):
    """Objects that are whole or absent, and change by `replace` alone; every error is a StoreError.

    Keys are relative posix paths. A `prefix` is a plain prefix of the string: `bundles/ab` finds `bundles/abc/x`.
    """

    @property
    def uri(self) -> str: ...

    def has(self, key: str) -> bool: ...

    def updated(self, key: str) -> datetime: ...

    def read(self, key: str) -> bytes:
        """The whole object; for small ones."""
        ...

    def put(self, key: str, file: Path) -> bool:
        """Store `file` if the key is free. False where an equal object was there already, whose age starts anew for gc;
        an error where it was another.
        """
        ...

    def replace(self, key: str, content: bytes) -> None:
        """Store a small object in place of whatever has the key: who reads it meanwhile gets the one or the other."""
        ...

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Objects in the order of their keys."""
        ...

    def keys(self, prefix: str = "") -> Iterator[str]: ...

    def delete(self, key: str) -> None:
        """Remove the object; one that is gone already is fine."""
        ...


def check_key(key: str) -> str:
    """Returns the key. Raises StoreError where it cannot be one."""
    parts = key.split("/")
    if not key.isprintable() or any(part in ("", ".", "..") for part in parts) or PARTIAL in parts:
        raise StoreError(
            f"{key!r} is not a key; keys are relative printable paths without '.', '..', '{PARTIAL}' or empty parts"
        )
    return key


@contextlib.contextmanager
def disk_errors(doing: str) -> Generator[None]:
    """Turns whatever the operating system refuses while `doing` something into one sentence."""
    try:
        yield
    except OSError as error:
        todo = {
            errno.ENOSPC: "; free some space and run it again",
            errno.EDQUOT: "; free some space and run it again",
            errno.EACCES: "; this user may not",
            errno.EPERM: "; this user may not",
        }.get(error.errno or 0, "")
        raise StoreError(f"cannot {doing}: {(error.strerror or str(error)).lower()}{todo}") from error


def put_bytes(store: Store, key: str, content: bytes) -> None:
    """Store a small object, or set the age of an equal one back to zero. Raises StoreError."""
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "object"
        file.write_bytes(content)
        store.put(key, file)


class LocalStore:
    """A directory in which every object is a file, written elsewhere in it first and then linked to its place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @property
    def uri(self) -> str:
        return str(self.directory)

    def path(self, key: str) -> Path:
        """Where the object's file is, or would be."""
        return self.directory / check_key(key)

    def has(self, key: str) -> bool:
        return self.path(key).is_file()

    def size(self, key: str) -> int:
        return self._stat(key).st_size

    def updated(self, key: str) -> datetime:
        return datetime.fromtimestamp(self._stat(key).st_mtime, UTC)

    def read(self, key: str) -> bytes:
        with self._present(key):
            return self.path(key).read_bytes()

    def put(self, key: str, file: Path) -> bool:
        target = self.path(key)
        with disk_errors(f"store {file} as {key} in {self.uri}"):
            digest = sha256_of(file)
            if target.exists() and self._renew(key, file, digest):
                return False
            aside = self._aside()
            partial = aside / uuid.uuid4().hex
            try:
                with file.open("rb") as source:
                    _write_to_disk(source, partial)
                if sha256_of(partial) != digest:
                    raise StoreError(f"{key} of {self.uri} changed on its way (checksum mismatch); run it again")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(partial)  # a rename would overwrite what another process has put since
            except FileExistsError:
                return False if self._renew(key, file, digest) else self.put(key, file)
            finally:
                partial.unlink(missing_ok=True)
        return True

    def replace(self, key: str, content: bytes) -> None:
        target = self.path(key)
        with disk_errors(f"store {key} in {self.uri}"):
            partial = self._aside() / uuid.uuid4().hex
            try:
                _write_to_disk(io.BytesIO(content), partial)
                target.parent.mkdir(parents=True, exist_ok=True)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Objects that vanish while they are listed are left out."""
        for key in self.keys(prefix):
            with contextlib.suppress(NoObjectError):
                stat = self._stat(key)
                yield Entry(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))

    def keys(self, prefix: str = "") -> Iterator[str]:
        below = self.directory / prefix.rpartition("/")[0]
        keys: list[str] = []
        with disk_errors(f"list {below}"):
            for folder, folders, files in below.walk(on_error=_unless_missing):
                if PARTIAL in folders:
                    folders.remove(PARTIAL)
                keys += [(folder / name).relative_to(self.directory).as_posix() for name in files]
        yield from sorted(key for key in keys if key.startswith(prefix))

    def delete(self, key: str) -> None:
        with disk_errors(f"delete {key} of {self.uri}"):
            self.path(key).unlink(missing_ok=True)  # its directory stays: a put may be about to use it

    def _aside(self) -> Path:
        """The directory for partial files (and for the work of builds), without what killed processes have left."""
        aside = self.directory / PARTIAL
        aside.mkdir(parents=True, exist_ok=True)
        for partial in aside.iterdir():
            with contextlib.suppress(FileNotFoundError):  # its writer has just ended
                if partial.stat().st_mtime > time.time() - ABANDONED_S:
                    continue
                if partial.is_dir():
                    shutil.rmtree(partial)
                else:
                    partial.unlink()
        return aside

    def _stat(self, key: str) -> os.stat_result:
        with self._present(key):
            return self.path(key).stat()

    @contextlib.contextmanager
    def _present(self, key: str) -> Generator[None]:
        with disk_errors(f"read {key} of {self.uri}"):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError):
                raise NoObjectError(f"there is no {key} in {self.uri}") from None

    def _renew(self, key: str, file: Path, digest: str) -> bool:
        """Set the age of an object in use back to zero; False where gc has just deleted it."""
        try:
            self._same(key, file, digest)
            os.utime(self.path(key))
        except (FileNotFoundError, NoObjectError):
            return False
        return True

    def _same(self, key: str, file: Path, digest: str) -> None:
        stored_bytes, file_bytes = self.size(key), file.stat().st_size
        if stored_bytes != file_bytes:
            raise StoreError(f"{key} in {self.uri} has {stored_bytes} bytes, but {file} has {file_bytes}; {REPAIR}")
        if sha256_of(self.path(key)) != digest:
            raise StoreError(f"{key} in {self.uri} has another checksum than {file}; {REPAIR}")


REPAIR = "objects never change, so one of them is broken: delete the wrong one"


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_to_disk(source: BinaryIO, target: Path) -> None:
    with target.open("xb") as writing:
        shutil.copyfileobj(source, writing, 1 << 20)
        writing.flush()
        os.fsync(writing.fileno())  # the name must not outlive a power cut that the content does not


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
