"""A small archive with the layout of a CPython for hosts, whose interpreter is an ELF header and nothing more."""

from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path

from infra.host_software.wheels.pythons import INTERPRETER

X86_64, AARCH64 = 62, 183
NAME = "cpython-3.12.9-x86_64-unknown-linux-gnu-install_only.tar.gz"


def header(machine: int = X86_64) -> bytes:
    return struct.pack("<6s12xH44x", b"\x7fELF\x02\x01", machine)


def python_archive(directory: Path, interpreter: bytes = header(), name: str = NAME, member: str = INTERPRETER) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(directory / name, "w:gz") as archive:
        for path, content in (("python/a-file-before", b"x"), (member, interpreter)):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            info.mode = 0o755
            archive.addfile(info, io.BytesIO(content))
    return directory / name
