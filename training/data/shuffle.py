"""The order of records, and the runs on disk that bring them into it without holding them in memory.

Owns the keys: a record's place is its hash, so the order depends on the seed and the corpus and on nothing else. A run
is one worker's sorted batch with an index of buckets; a bucket, gathered over all runs, is small enough to sort.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO

RUN_BYTES = 4 << 20  # of records that a worker holds before it writes them out
_BUCKET_BYTES = 1 << 20
_BUCKETS = (16, 2048)
_ENTRY_OVERHEAD = 160  # what Python needs beyond a record's own bytes
_KEY_BYTES = 16
_TRAIN, _HELDOUT = b"\0", b"\1"
_LENGTH_AT = 1 + _KEY_BYTES
_TEXT_AT = _LENGTH_AT + 4


class Keys:
    """Hashes that place documents and records, by seed and by name within the corpus."""

    def __init__(self, seed: int) -> None:
        self._record = blake2b(f"record {seed}\0".encode(), digest_size=_KEY_BYTES)
        self._heldout = blake2b(f"heldout {seed}\0".encode(), digest_size=8)

    def of_record(self, source: str, document: int, record: int) -> bytes:
        """Sixteen bytes; sorting by them is the shuffle."""
        state = self._record.copy()
        state.update(f"{source}\0{document}\0{record}".encode())
        return state.digest()

    def of_document(self, source: str, document: int) -> int:
        """A number below 2^64; the document is held out where it is below the threshold."""
        state = self._heldout.copy()
        state.update(f"{source}\0{document}".encode())
        return int.from_bytes(state.digest())


def bucket_count(corpus_bytes: int) -> int:
    """Buckets per split for a corpus of this size."""
    fewest, most = _BUCKETS
    return min(max(-(-corpus_bytes // _BUCKET_BYTES), fewest), most)


class RunWriter:
    """Gathers records and writes each RUN_BYTES of them as one sorted run `<prefix>-<n>.run`."""

    def __init__(self, prefix: Path, buckets: int) -> None:
        self._prefix = prefix
        self._buckets = buckets
        self._entries: list[bytes] = []
        self._held_bytes = 0
        self.runs = 0

    def add(self, *, heldout: bool, key: bytes, text: bytes) -> None:
        self._entries.append(b"".join((_HELDOUT if heldout else _TRAIN, key, len(text).to_bytes(4), text)))
        self._held_bytes += len(text) + _ENTRY_OVERHEAD
        if self._held_bytes >= RUN_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._entries:
            return
        self._entries.sort()
        ends = array("Q", [0]) * (2 * self._buckets + 1)
        path = run_path(self._prefix, self.runs)
        with path.open("wb") as stream:
            stream.seek(len(ends) * ends.itemsize)
            for entry in self._entries:
                ends[_bucket(entry, self._buckets) + 1] += len(entry)
                stream.write(entry)
            for bucket in range(1, len(ends)):
                ends[bucket] += ends[bucket - 1]
            stream.seek(0)
            stream.write(ends.tobytes())
        self.runs += 1
        self._entries, self._held_bytes = [], 0


def run_path(prefix: Path, run: int) -> Path:
    return prefix.with_name(f"{prefix.name}-{run}.run")


def _bucket(entry: bytes, buckets: int) -> int:
    return entry[0] * buckets + (int.from_bytes(entry[1:5]) * buckets >> 32)


def bucket_records(runs: Sequence[Path], *, heldout: bool, bucket: int, buckets: int) -> Iterator[bytes]:
    """The texts of one bucket of one split, in their final order."""
    entries: list[bytes] = []
    index = bucket + (buckets if heldout else 0)
    for path in runs:
        with path.open("rb", buffering=0) as stream:
            entries.extend(_segment(stream, index, buckets))
    entries.sort()
    for entry in entries:
        yield entry[_TEXT_AT:]


def _segment(stream: IO[bytes], index: int, buckets: int) -> Iterator[bytes]:
    """The entries that one run has of one bucket."""
    bounds = array("Q")
    stream.seek(index * bounds.itemsize)
    bounds.frombytes(stream.read(2 * bounds.itemsize))
    start, end = bounds
    if start == end:
        return
    stream.seek((2 * buckets + 1) * bounds.itemsize + start)
    segment = memoryview(stream.read(end - start))
    position = 0
    while position < len(segment):
        size = _TEXT_AT + int.from_bytes(segment[position + _LENGTH_AT : position + _TEXT_AT])
        yield bytes(segment[position : position + size])
        position += size
