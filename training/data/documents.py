"""Reads sources as documents and cuts long ones into records.

Owns what a document is (a text file, or the text of a JSON line), where it may be cut and which part of a file one task
reads. Refuses text that is not UTF-8. Joining the records of a document in order gives the document, byte for byte.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, cast

from training.data.identity import DataError, SourceFile

PART_BYTES = 4 << 20  # of a file that one task reads: bounds a worker's memory and what a kill loses
MAX_DOCUMENT_BYTES = 1 << 30  # as one record; protobuf stops at 2 GiB

type Record = tuple[int, int, bytes]  # offset of the document in its file, of the record in its document, UTF-8 text


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes `start` to `end` (None: to the end) of the source with this index in the sorted corpus."""

    source: int
    start: int
    end: int | None


def tasks(files: Sequence[SourceFile], sizes: Sequence[int], record_bytes: int) -> Iterator[list[Part]]:
    """Parts in corpus order, gathered to about PART_BYTES: units of work that do not depend on who does them."""
    gathered: list[Part] = []
    gathered_bytes = 0
    for index, (file, size) in enumerate(zip(files, sizes, strict=True)):
        # A gzip stream is readable from its start only.
        whole = file.is_gzip or (record_bytes == 0 and not file.is_json)
        step = max(size, 1) if whole else PART_BYTES
        for start in range(0, size, step):
            end = min(start + step, size)
            if gathered and gathered_bytes + end - start > PART_BYTES:
                yield gathered
                gathered, gathered_bytes = [], 0
            gathered.append(Part(index, start, None if file.is_gzip else end))
            gathered_bytes += end - start
    if gathered:
        yield gathered


def records(file: SourceFile, part: Part, record_bytes: int, text_key: str) -> Iterator[Record]:
    """The records that begin in `part`. Raises DataError naming the file and the place of what cannot be read."""
    try:
        with _opened(file) as stream:
            if file.is_json:
                yield from _json_records(file, stream, part, record_bytes, text_key)
            else:
                yield from _text_records(file, stream, part, record_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file.path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {file.path}: {error.strerror or error}") from error


def _opened(file: SourceFile) -> closing[IO[bytes]]:
    return closing(cast(IO[bytes], gzip.GzipFile(file.path) if file.is_gzip else file.path.open("rb")))


def cut(window: bytes, limit: int) -> int:
    """How many bytes of `window` the next record takes: all that is left, else up to a line end, else whole characters.

    `window` holds at least `limit` + 1 bytes unless the text ends with it.
    """
    if len(window) <= limit:
        return len(window)
    line_end = window.rfind(b"\n", 0, limit)
    return line_end + 1 if line_end >= 0 else _character_start(window, limit)


def pieces(text: bytes, limit: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of the records of a document that is in memory; `limit` 0 keeps it whole."""
    position = 0
    while position < len(text):
        size = cut(text[position : position + limit + 1], limit) if limit else len(text)
        yield position, text[position : position + size]
        position += size


def _character_start(window: bytes, index: int) -> int:
    """The nearest index at or before `index` where a UTF-8 character starts; `index` itself in what is not UTF-8."""
    for start in range(index, max(index - 4, 0), -1):
        if window[start] & 0xC0 != 0x80:
            return start
    return index


def _aligned(stream: IO[bytes], offset: int, limit: int) -> int:
    """The first line start at or after `offset`; in a long line, the next character start. Both neighbours agree."""
    if offset == 0:
        return 0
    stream.seek(offset - 1)
    window = stream.read(min(limit, PART_BYTES) + 1)
    line_end = window.find(b"\n")
    if line_end >= 0:
        return offset + line_end
    start = 1
    while start < len(window) and window[start] & 0xC0 == 0x80:
        start += 1
    return offset - 1 + start


def _text_records(file: SourceFile, stream: IO[bytes], part: Part, limit: int) -> Iterator[Record]:
    if limit == 0:
        yield from _whole(file, 0, stream.read(MAX_DOCUMENT_BYTES + 1))
        return
    position, end = part.start, part.end
    if end is not None:
        position, end = _aligned(stream, part.start, limit), _aligned(stream, end, limit)
        stream.seek(position)
    window = b""
    while end is None or position < end:
        wanted = limit + 1 if end is None else min(limit + 1, end - position)
        window += stream.read(wanted - len(window))
        if not window:
            return
        size = cut(window, limit)
        text, window = window[:size], window[size:]
        _check(file, position, text)
        yield 0, position, text
        position += size


def _whole(file: SourceFile, offset: int, text: bytes) -> Iterator[Record]:
    if len(text) > MAX_DOCUMENT_BYTES:
        raise DataError(f"{file.path} holds a document of more than 1 GiB: give --record-bytes, so that it is cut")
    if text:
        _check(file, offset, text)
        yield offset, 0, text


def _check(file: SourceFile, offset: int, text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise DataError(f"{file.path} is not UTF-8 at byte {place}: convert it or leave it out of the input") from None
    if b"\0" in text:
        place = offset + text.index(b"\0")
        raise DataError(f"{file.path} is not text: byte {place} is zero; leave it out of the input")


def _json_records(file: SourceFile, stream: IO[bytes], part: Part, limit: int, key: str) -> Iterator[Record]:
    position = part.start
    if position:
        stream.seek(position - 1)
        position += len(stream.readline()) - 1  # a line belongs to the part where it begins
    while part.end is None or position < part.end:
        line = stream.readline()
        if not line:
            return
        text = _text_of(file, position, line, key)
        if limit == 0:
            yield from _whole(file, position, text)
        else:
            yield from ((position, start, record) for start, record in pieces(text, limit))
        position += len(line)


def _text_of(file: SourceFile, offset: int, line: bytes, key: str) -> bytes:
    """The text of one JSON line, empty for a blank line."""
    if line.isspace():
        return b""
    try:
        document = cast(dict[str, str], json.loads(line.decode()))
    except UnicodeDecodeError:
        raise DataError(f"{_place(file, offset)} is not UTF-8: convert the file") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{_place(file, offset)} is not one JSON object per line: {error.msg}") from None
    try:
        return document[key].encode()
    except UnicodeEncodeError:
        raise DataError(f"{_place(file, offset)}: {key!r} holds half of a surrogate pair, which is no text") from None
    except KeyError:
        keys = ", ".join(sorted(document)) or "no key at all"
        raise DataError(f"{_place(file, offset)} has no key {key!r} but {keys}: name it with --text-key") from None
    except (TypeError, AttributeError):
        raise DataError(
            f"{_place(file, offset)} has no text under {key!r}: each line is an object of strings"
        ) from None


def _place(file: SourceFile, offset: int) -> str:
    """`FILE, line N`: counted only when there is something to report."""
    with _opened(file) as stream:
        line, left = 1, offset
        while left > 0 and (chunk := stream.read(min(left, 1 << 20))):
            line += chunk.count(b"\n")
            left -= len(chunk)
    return f"{file.path}, line {line}"
