"""ELF programs and libraries of x86-64 Linux, as far as moving them needs: their machine, run path and glibc.

Owns one change: a run path becomes relative to the file, in place, as chrpath does it. Not patchelf, which can also
lengthen a run path, and which every `make setup` would have to install for a command that few run.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

HEADER_BYTES = 64
X86_64 = "x86_64"
_MACHINES = {3: "i386", 40: "arm", 62: X86_64, 183: "aarch64", 243: "riscv"}
_LOAD, _DYNAMIC = 1, 2  # segments
_STRINGS, _STRINGS_SIZE, _RPATH, _RUNPATH = 5, 10, 15, 29  # entries of the dynamic segment
_GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)")


class RunPathError(ValueError):
    """The run path of a file cannot be changed in place; the message says which and why."""


def machine(header: bytes) -> str | None:
    """The machine that a program is for; None for what is no 64-bit little-endian ELF file."""
    if len(header) < HEADER_BYTES or header[:6] != b"\x7fELF\x02\x01":
        return None
    number: int = struct.unpack_from("<H", header, 18)[0]
    return _MACHINES.get(number, f"machine {number}")


@dataclass(frozen=True)
class _Dynamic:
    """Where things are in a file: its dynamic entries by tag (offset, value) and its string table."""

    entries: dict[int, tuple[int, int]]
    strings: int
    strings_size: int


def glibc_minor(path: Path) -> int:
    """The newest glibc 2.x that a file asks for; 0 if it asks for none."""
    data = path.read_bytes()
    dynamic = _dynamic(data)
    if dynamic is None:
        return 0
    table = data[dynamic.strings : dynamic.strings + dynamic.strings_size]
    return max((int(minor) for minor in _GLIBC.findall(table)), default=0)


def run_path(path: Path) -> str | None:
    """Where a file looks for its libraries first; None if it says nothing of it."""
    data = path.read_bytes()
    found = _run_path(data)
    return None if found is None else data[found[1] : data.index(b"\0", found[1])].decode()


def set_run_path(path: Path, wanted: str) -> None:
    """Let a file, and what it loads, look for libraries at `wanted` first.

    It becomes an RPATH, which a library inherits from what loads it and a RUNPATH does not. Raises RunPathError where
    the file has no run path of that length.
    """
    data = bytearray(path.read_bytes())
    found = _run_path(data)
    old = b"" if found is None else data[found[1] : data.index(b"\0", found[1])]
    if found is None or len(old) < len(wanted.encode()):
        raise RunPathError(f"{path.name} has the run path '{old.decode()}', which '{wanted}' does not fit in")
    struct.pack_into("<q", data, found[0], _RPATH)
    data[found[1] : found[1] + len(old)] = wanted.encode().ljust(len(old), b"\0")
    path.write_bytes(data)


def _run_path(data: bytes | bytearray) -> tuple[int, int] | None:
    """The offsets of the entry and of its text."""
    dynamic = _dynamic(data)
    for tag in (_RUNPATH, _RPATH):
        if dynamic and tag in dynamic.entries:
            offset, value = dynamic.entries[tag]
            return offset, dynamic.strings + value
    return None


def _dynamic(data: bytes | bytearray) -> _Dynamic | None:
    """None for a file that is no ELF file, or loads nothing."""
    if machine(bytes(data[:HEADER_BYTES])) is None:
        return None
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, table + size * number) for number in range(count)]
    entries: dict[int, tuple[int, int]] = {}
    for kind, _, offset, _, _, length in segments:
        if kind == _DYNAMIC:
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == 0:
                    break
                entries[tag] = (at, value)
    if _STRINGS not in entries:
        return None
    address = entries[_STRINGS][1]
    for kind, _, offset, virtual, _, length in segments:
        if kind == _LOAD and virtual <= address < virtual + length:
            return _Dynamic(entries, address - virtual + offset, entries[_STRINGS_SIZE][1])
    return None
