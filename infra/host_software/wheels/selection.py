"""Which file of each locked package a host installs: x86-64 Linux, CPython 3.12."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging import tags
from packaging.markers import Environment, default_environment
from packaging.pylock import PackageSdist, PackageWheel, Pylock, PylockSelectError, PylockValidationError

from infra.host_software.wheels.locks import LockError, lock_path, read_lock

_PYTHON = (3, 12)
GLIBC_MINOR = 35  # Ubuntu 22.04, the base of TPU VMs; python:3.12 images have a later one


@dataclass(frozen=True)
class LockedFile:
    """One file to fetch. `sha256` is the lock's; an sdist is built into a wheel before hosts see it."""

    package: str
    version: str
    url: str
    sha256: str
    is_sdist: bool = False

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])


def locked_files(lock: Path) -> tuple[LockedFile, ...]:
    """The files of a lock, sorted by package. Raises LockError for what no index serves or has no hash."""
    try:
        document = Pylock.from_dict(tomllib.loads(read_lock(lock).decode()))
        selected = list(document.select(environment=_environment(), tags=_tags()))
    except (tomllib.TOMLDecodeError, PylockValidationError, PylockSelectError) as error:
        raise LockError(f"{lock.name} cannot be used: {error}") from None
    files: list[LockedFile] = []
    for package, file in selected:
        if not isinstance(file, PackageWheel | PackageSdist) or not file.url or "sha256" not in file.hashes:
            raise LockError(f"{lock.name}: {package.name} is no hashed file of a package index")
        version = str(package.version)
        files.append(LockedFile(package.name, version, file.url, file.hashes["sha256"], isinstance(file, PackageSdist)))
    return tuple(sorted(files, key=lambda file: file.package))


def locked_version(package: str, platform: str, channel: str) -> str:
    """Of a package that every platform's hosts install. Raises LockError."""
    document = tomllib.loads(read_lock(lock_path(platform, channel)).decode())
    return next(str(each["version"]) for each in document["packages"] if each["name"] == package)


def _environment() -> Environment:
    linux: Environment = default_environment()
    linux.update(sys_platform="linux", platform_system="Linux", os_name="posix", platform_machine="x86_64")
    linux.update(python_version="3.12", python_full_version="3.12.0", implementation_name="cpython")
    return linux


@functools.cache
def _tags() -> tuple[tags.Tag, ...]:
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC_MINOR, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    specific = tags.cpython_tags(_PYTHON, platforms=platforms)
    return (*specific, *tags.compatible_tags(_PYTHON, "cp312", platforms))
