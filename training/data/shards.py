"""ArrayRecord shards of tf.Example records with one bytes feature `text`, as MaxText's grain pipeline reads them.

Owns the wire format and the writer's settings. tf.Example is written by hand: importing MaxText's protos costs seconds
per process, and a test holds both to the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from training.data.identity import FileEntry
from training.data.partial import WorkError

# One record per group, so that grain's random access decompresses nothing else; one thread, so that memory is bounded.
_WRITER_OPTIONS = "group_size:1,zstd:3,max_parallelism:1"
_READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
_READ_BUFFER_BYTES = 1 << 20
_SHARD_BYTES = 16 << 20  # of text: a writer keeps up to 16 MiB of what it has compressed in memory
_FEW = 8  # shards at least, so that a small corpus still keeps several processes busy
_MANY = 1024  # at most; then shards grow with the corpus
_SMALLEST_SHARD_BYTES = 1 << 20
_READ_RECORDS = 16


def shard_count(text_bytes: int, buckets: int) -> int:
    """Shards of a split with this much text."""
    few = min(_FEW, -(-text_bytes // _SMALLEST_SHARD_BYTES))
    return max(1, min(buckets, _MANY, max(few, -(-text_bytes // _SHARD_BYTES))))


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_example(text: bytes) -> bytes:
    """tf.Example {features {feature {key: "text" value {bytes_list {value: text}}}}}."""
    value = _field(1, _field(1, text))
    return _field(1, _field(1, _field(1, b"text") + _field(2, value)))


def decode_example(example: bytes) -> bytes:
    """The text of a record that `encode_example` made: it is the record's tail, so only its length must be read."""
    position = 0
    for skipped in (1, 1, len(b"\x0a\x04text") + 1, 1, 1):  # the tag of each level, and the key before the value
        position += skipped
        while example[position] & 0x80:
            position += 1
        position += 1
    return example[position:]


@dataclass(frozen=True)
class Shard:
    """A shard on disk, with what it holds."""

    file: FileEntry
    records: int
    text_bytes: int


def write_shard(path: Path, texts: Iterable[bytes]) -> Shard:
    """Write the shard in one step."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    count = text_bytes = 0
    try:
        writer = ArrayRecordWriter(str(temporary), _WRITER_OPTIONS)
        for text in texts:
            writer.write(encode_example(text))
            count += 1
            text_bytes += len(text)
        writer.close()
        _check_count(temporary, count)
    except RuntimeError as error:  # what the extension raises for every failed write
        temporary.unlink(missing_ok=True)
        raise WorkError(f"cannot write {path}: {str(error).split(';')[0]}") from error
    with temporary.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
    entry = FileEntry(path.name, digest, temporary.stat().st_size)
    temporary.replace(path)
    return Shard(entry, count, text_bytes)


def _reader(path: Path) -> ArrayRecordReader:
    return ArrayRecordReader(str(path), _READER_OPTIONS, file_reader_buffer_size=_READ_BUFFER_BYTES)


def _check_count(path: Path, count: int) -> None:
    reader = _reader(path)
    found = reader.num_records()
    reader.close()
    if found != count:
        raise RuntimeError(f"{found} of {count} records arrived on disk")


def read_shard(path: Path) -> Iterator[bytes]:
    """The texts of a shard, in order, a few in memory at a time."""
    reader = _reader(path)
    total, position = reader.num_records(), 0
    while position < total:
        examples = reader.read(position, min(position + _READ_RECORDS, total))
        yield from map(decode_example, examples)
        position += len(examples)
    reader.close()
