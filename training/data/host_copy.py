"""Prepared text from a bucket to this host's disk, before anything trains.

Owns which files are fetched and when one counts: it has its name only once its bytes are those of the manifest, so what
has its name and size is not fetched again, and what a kill cut short goes on where it was. Refuses to own which text
it is (the run spec), whether it is enough (demand.py), and how a bucket is asked (training/bucket_reader.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import queue
import re
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.bucket_reader import BucketReader, BucketReadError
from training.data.identity import MANIFEST, DataError, FileEntry, Manifest, parse_manifest
from training.data.partial import write_atomically
from training.data.prepared import other_data, read_prepared
from training.run_spec import RunSpec

AT_ONCE = min(8, 2 * (os.cpu_count() or 1))  # each is hashed as it comes, which takes a core
SPARE_BYTES = 256 << 20  # what training writes on the same disk has to go somewhere
_PARTIAL = ".partial"
_SOURCE = "copied-from"  # in a directory that is a copy
_SHOW_EVERY_S = 1.0
_CONTENT = re.compile(r"[0-9a-f]{16}")

type Watch = Callable[[str], None]  # hears once a second, in the caller's thread, how far it is


@dataclass(frozen=True)
class Copied:
    """What was fetched, and what was there; sizes in bytes."""

    files: int
    bytes: int
    present_bytes: int
    seconds: float

    def __str__(self) -> str:
        there = f"; {_mb(self.present_bytes)} were there" if self.present_bytes else ""
        speed = f" ({self.bytes / self.seconds / 1e6:,.0f} MB/s)" if self.seconds > 0 and self.bytes else ""
        return f"{self.files} files of {_mb(self.bytes)} in {self.seconds:.1f} s{speed}{there}"


def on_this_host(spec: RunSpec, directory: Path, reader: BucketReader, watch: Watch) -> RunSpec:
    """The run spec with its text below `directory`, where that lies in a bucket; raises what copy_from_bucket does."""
    data = spec.data
    if data is None or not data.directory.startswith(("gs://", "s3://")):
        return spec
    here = directory / data.content
    print(f"slipway: the data is copied from {data.directory} to {here}", flush=True)
    copied = copy_from_bucket(data.directory, data.content, here, reader, watch)
    print(f"slipway: the data is on this host's disk: {copied}", flush=True)
    return dataclasses.replace(spec, data=dataclasses.replace(data, directory=str(here)))


def copy_from_bucket(source: str, content: str, directory: Path, reader: BucketReader, watch: Watch) -> Copied:
    """Fill `directory` with the text `content` that lies at the URL `source`, with nothing beside it.

    Other text in the directory's parent makes room. Raises DataError for other text than the run's and for a disk that
    is too small, before anything is copied, and BucketReadError for what cannot be had as the manifest has it.
    """
    started = time.monotonic()
    with contextlib.suppress(DataError):
        there = read_prepared(directory, content).files
        return Copied(0, 0, sum(file.bytes for file in there), 0.0)
    text = reader.read(f"{source}/{MANIFEST}")
    manifest = _manifest(text, source, content)
    directory.mkdir(parents=True, exist_ok=True)
    _make_room(directory, manifest)
    missing = [file for file in manifest.files if not _is_there(directory, file)]
    _check_space(directory, missing)
    _Copy(source, directory, reader, missing).run(watch)
    (directory / _SOURCE).write_text(source)
    write_atomically(directory / MANIFEST, text)
    fetched = sum(file.bytes for file in missing)
    every = sum(file.bytes for file in manifest.files)
    return Copied(len(missing), fetched, every - fetched, time.monotonic() - started)


def forget_damaged(directory: Path, names: Sequence[str]) -> str:
    """Remove files of a copy, which the next start fetches again; returns their source, empty for what is no copy."""
    try:
        source = (directory / _SOURCE).read_text()
    except FileNotFoundError:
        return ""
    for name in names:
        (directory / name).unlink(missing_ok=True)
    return source


class _Copy:
    """Of some files, several at once. Daemon threads: a host that is told to stop waits for none."""

    def __init__(self, source: str, directory: Path, reader: BucketReader, files: Sequence[FileEntry]) -> None:
        self._source, self._directory, self._reader, self._files = source, directory, reader, files
        self._waiting: queue.SimpleQueue[FileEntry] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._bytes = 0

    def run(self, watch: Watch) -> None:
        """Raises what the first that fails raises."""
        for file in sorted(self._files, key=lambda file: -file.bytes):
            self._waiting.put(file)
        for _ in range(min(AT_ONCE, len(self._files))):
            threading.Thread(target=self._work, daemon=True).start()
        total, left, shown_at = sum(file.bytes for file in self._files), len(self._files), time.monotonic()
        try:
            while left:
                with contextlib.suppress(queue.Empty):
                    error = self._ended.get(timeout=_SHOW_EVERY_S)
                    if error:
                        raise error
                    left -= 1
                if time.monotonic() - shown_at >= _SHOW_EVERY_S:
                    watch(f"copies the data: {_mb(self._bytes)} of {_mb(total)}")
                    shown_at = time.monotonic()
        finally:
            self._stop.set()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                file = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._fetch(file)
                self._ended.put(None)
            except OSError as error:  # of the disk, which names no file where it is full
                self._ended.put(OSError(error.errno, error.strerror, str(self._directory / file.name)))
                return
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
                self._ended.put(error)
                return

    def _fetch(self, file: FileEntry) -> None:
        """What is left of an earlier start may be of another object, so a wrong sum begins anew, once."""
        partial = self._directory / f"{file.name}{_PARTIAL}"
        found = self._download(file, partial)
        if found != file.sha256:
            partial.unlink()
            self._count(-file.bytes)
            found = self._download(file, partial)
        if found != file.sha256:
            url, place = f"{self._source}/{file.name}", _first_damage(partial)
            partial.unlink()
            raise BucketReadError(
                f"{url} is not what its manifest says: its {file.bytes:,} bytes have the SHA-256 {found[:12]}, "
                f"expected is {file.sha256[:12]}{place}; it was replaced or damaged: delete it there and run "
                f"`pulumi up` again"
            )
        partial.replace(self._directory / file.name)

    def _download(self, file: FileEntry, partial: Path) -> str:
        """The SHA-256 of all that is in `partial` then."""
        digest = hashlib.sha256()
        if partial.exists() and partial.stat().st_size > file.bytes:
            partial.unlink()
        with partial.open("ab+") as stream:
            stream.seek(0)
            while block := stream.read(1 << 20):
                digest.update(block)
            at = stream.tell()
            self._count(at)
            for chunk in self._reader.chunks(f"{self._source}/{file.name}", at, file.bytes):
                stream.write(chunk)
                digest.update(chunk)
                self._count(len(chunk))
                if self._stop.is_set():
                    break
        return digest.hexdigest()

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes += size


def _manifest(text: bytes, source: str, content: str) -> Manifest:
    manifest = parse_manifest(text.decode(errors="replace"), f"{source}/{MANIFEST}")
    if difference := other_data(manifest, content, source):
        raise DataError(f"{difference}: delete {source} and run `pulumi up` again")
    return manifest


def _make_room(directory: Path, manifest: Manifest) -> None:
    """Remove the text of other runs, and files here that the manifest does not name: MaxText would read them."""
    for other in directory.parent.iterdir():
        if other != directory and _CONTENT.fullmatch(other.name):
            shutil.rmtree(other)
    named = {file.name for file in manifest.files}
    for path in directory.iterdir():
        if path.name.removesuffix(_PARTIAL) not in named:
            path.unlink()


def _is_there(directory: Path, file: FileEntry) -> bool:
    path = directory / file.name
    return path.is_file() and path.stat().st_size == file.bytes


def _check_space(directory: Path, missing: Sequence[FileEntry]) -> None:
    partials = (directory / f"{file.name}{_PARTIAL}" for file in missing)
    needed = sum(file.bytes for file in missing) - sum(path.stat().st_size for path in partials if path.exists())
    free = shutil.disk_usage(directory).free
    if needed > 0 and needed + SPARE_BYTES > free:
        raise DataError(
            f"the data does not fit on this host: {_mb(needed)} are to be copied to {directory}, whose disk has "
            f"{_mb(free)} free, of which {_mb(SPARE_BYTES)} stay free; give hosts a larger disk, or less data"
        )


def _first_damage(shard: Path) -> str:
    """What the reader of shards says first of a damaged one, which has the byte; nothing where it finds nothing."""
    if ".array_record" not in shard.name:
        return ""
    from training.data.shards import read_shard  # here, because its library is needed for nothing else before JAX

    try:
        deque(read_shard(shard), maxlen=0)
    except RuntimeError as error:
        return f" ({error})"
    return ""


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
