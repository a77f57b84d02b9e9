"""Writes training/locks/python.toml: `python -m infra.host_software.wheels.python_lock`, as `make lock` does.

The release and its SHA-256 are those that the locked uv would install. They stand in the source of uv, which
pylock.bootstrap.toml has with its hash, so a package index vouches for a file that it does not serve itself.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.pylock import Pylock

from infra.host_software.wheels.fetch import Silent, fetch_all
from infra.host_software.wheels.locks import LockError, bootstrap_lock, read_lock
from infra.host_software.wheels.pythons import LockedPython, lock_path
from infra.host_software.wheels.selection import LockedFile

_METADATA = "/download-metadata.json"
_KEY = re.compile(r"cpython-3\.12\.\d+-linux-x86_64-gnu")  # not of debug builds, nor of newer processors
_TEXT = """\
# The CPython that hosts get whose image has no 3.12; `make lock` writes it.
# A release of python-build-standalone, as {member} of
# {source} names it; that file's own SHA-256 is in pylock.bootstrap.toml.
[python]
version = "{version}"
release = "{release}"
url = "{url}"
sha256 = "{sha256}"
"""


def newest(metadata: Mapping[str, Any]) -> LockedPython:
    """The newest CPython 3.12 for hosts among the builds that uv knows. Raises LockError where there is none."""
    builds = [build for key, build in metadata.items() if _KEY.fullmatch(key)]
    if not builds:
        raise LockError("uv's own list names no CPython 3.12 for x86_64-unknown-linux-gnu; lock another uv")
    build = max(builds, key=lambda build: build["patch"])
    version = f"{build['major']}.{build['minor']}.{build['patch']}"
    return LockedPython(version, build["build"], build["url"], build["sha256"])


def text(python: LockedPython, source: str, member: str) -> str:
    """The lock. source: the archive that `python` was read in; member: the file in it."""
    return _TEXT.format(
        member=member,
        source=source,
        version=python.version,
        release=python.release,
        url=python.url,
        sha256=python.sha256,
    )


def source_of_uv() -> LockedFile:
    """The sdist of the locked uv. Raises LockError where the lock has none."""
    (package,) = Pylock.from_dict(tomllib.loads(read_lock(bootstrap_lock()).decode())).packages
    sdist = package.sdist
    if sdist is None or not sdist.url:
        raise LockError("pylock.bootstrap.toml has no sdist of uv, whose list of Python builds is needed; lock it anew")
    return LockedFile(package.name, str(package.version), sdist.url, sdist.hashes["sha256"], is_sdist=True)


def metadata_in(sdist: Path) -> tuple[str, dict[str, Any]]:
    """The name and content of the list of Python builds in uv's source. Raises LockError where there is none."""
    with tarfile.open(sdist) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(_METADATA) else None
            if stream:
                return member.name.partition("/")[2], json.load(stream)
    raise LockError(f"{sdist.name} has no {_METADATA[1:]}; see where uv keeps its list of Python builds now")


def main() -> None:
    source = source_of_uv()
    with tempfile.TemporaryDirectory() as name:
        (sdist,) = fetch_all([source], Path(name), Silent()).values()
        member, metadata = metadata_in(sdist)
    lock_path().write_text(text(newest(metadata), source.name, member))


if __name__ == "__main__":
    main()
