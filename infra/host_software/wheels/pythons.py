"""The CPython that a wheelhouse has for hosts whose image lacks 3.12: the locked release, or an archive that is given.

Owns training/locks/python.toml, where the release is fetched from, and what an archive of a Python must be. Refuses to
own how an archive is made where the release cannot be reached (infra/host_software/wheels/python_made_here.py).
"""

from __future__ import annotations

import re
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from infra.host_software.wheels import elf
from infra.host_software.wheels.locks import LockError
from infra.paths import TRAINING
from training.data.hash_cache import HashCache

LOCKED = "locked"  # instead of an archive: the release that is locked
INTERPRETER = "python/bin/python3.12"
RELEASES = "https://github.com/astral-sh/python-build-standalone/releases/download"
MIRROR = "UV_PYTHON_INSTALL_MIRROR"  # a mirror of RELEASES, under the name that uv reads
MADE_HERE = "made-here"  # in the name of an archive that this machine's own Python was packed into
ADVICE = (
    f"set {MIRROR} to a mirror of python-build-standalone's releases, or name the file as `slipway:python_archive`, "
    f"or make an archive of this machine's Python: slipway wheels python"
)
_ARCHIVE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.tar\.gz")


@dataclass(frozen=True)
class LockedPython:
    """One file of a release of python-build-standalone; `release` is its day."""

    version: str
    release: str
    url: str
    sha256: str

    @property
    def name(self) -> str:
        return unquote(self.url.rpartition("/")[2])

    def url_to_fetch(self, environment: Mapping[str, str]) -> str:
        """At the mirror that the environment names, or where it is published."""
        mirror = environment.get(MIRROR, "").rstrip("/")
        return f"{mirror}{self.url.removeprefix(RELEASES)}" if mirror else self.url

    def __str__(self) -> str:
        return f"CPython {self.version}, release {self.release} of python-build-standalone"


@dataclass(frozen=True)
class HostPython:
    """The archive that hosts unpack. `path` is a given file; None is the locked release, which a build fetches."""

    name: str
    sha256: str
    locked: LockedPython
    path: Path | None = None

    @property
    def sum_line(self) -> str:
        """As sha256sum writes and checks it."""
        return f"{self.sha256}  {self.name}\n"

    def __str__(self) -> str:
        if self.sha256 == self.locked.sha256:
            return f"{self.locked} (sha256 {self.sha256[:12]})"
        return f"{self.name} (sha256 {self.sha256[:12]}), which is not the locked release ({self.locked})"


def lock_path(training: Path = TRAINING) -> Path:
    return training / "locks" / "python.toml"


def locked_python(training: Path = TRAINING) -> LockedPython:
    """Raises LockError, which names the command that writes the lock, where it is missing or cannot be used."""
    path = lock_path(training)
    try:
        values = tomllib.loads(path.read_text())["python"]
        return LockedPython(values["version"], values["release"], values["url"], values["sha256"])
    except FileNotFoundError:
        said = "there is no training/locks/python.toml, so hosts without Python 3.12 could not start"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        said = f"training/locks/python.toml cannot be used ({type(error).__name__}: {error})"
    raise LockError(f"{said}; make it with: make lock")


def host_python(archive: str, hashes: HashCache, base: Path, training: Path = TRAINING) -> HostPython:
    """Of `LOCKED`, or a file below `base`. Raises LockError for a file that hosts cannot use.

    A file with the content of the locked release is the locked release, whatever its name.
    """
    locked = locked_python(training)
    if archive == LOCKED:
        return HostPython(locked.name, locked.sha256, locked)
    path = base / archive
    if not path.is_file():
        raise LockError(f"python_archive is '{archive}', which is no file; give one, or `{LOCKED}`")
    sha256 = hashes.sha256(path)
    if sha256 == locked.sha256:
        return HostPython(locked.name, sha256, locked, path)
    if problem := archive_problem(path):
        raise LockError(
            f"python_archive {path.name} {problem}; give an `install_only` archive of CPython 3.12 for "
            f"x86_64-unknown-linux-gnu, or `{LOCKED}` ({locked})"
        )
    return HostPython(path.name, sha256, locked, path)


def archive_problem(path: Path) -> str | None:
    """Why hosts could not use an archive, or None. Reads it no further than to its interpreter."""
    if not _ARCHIVE_NAME.fullmatch(path.name):
        return "is not named like an archive that hosts can fetch (letters, digits, '._+-', ending in .tar.gz)"
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                if member.name.removeprefix("./") == INTERPRETER:
                    program = archive.extractfile(member)
                    machine = elf.machine(program.read(elf.HEADER_BYTES)) if program else None
                    return None if machine == elf.X86_64 else f"is for another machine ({machine or 'no ELF program'})"
    except (tarfile.TarError, EOFError, OSError) as error:
        return f"is no tar.gz that can be read ({error})"
    return f"holds no {INTERPRETER}"
