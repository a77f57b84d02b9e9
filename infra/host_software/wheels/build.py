"""A wheelhouse: every wheel of a lock as hosts install it, uv, and a Python where the base lacks one.

Owns the steps from inputs to `wheelhouses/<id>/SHA256SUMS`, which is written last, so a wheelhouse that can be seen is
whole. A build that is cut short leaves its files, and the next build uses them. Hosts get only wheels: sdists are
built, packages with patches are repacked under a local version, an overlay replaces what the lock says.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from infra.artifacts.layout import REQUIREMENTS, object_key, sums_text, wheelhouse_key
from infra.artifacts.store import PARTIAL, sha256_of
from infra.host_software.wheels.fetch import FetchProgress, fetch_all
from infra.host_software.wheels.identity import FETCHED_PYTHON, WheelhouseInputs
from infra.host_software.wheels.repack import repack
from infra.host_software.wheels.selection import LockedFile, locked_files
from infra.paths import ROOT

PYTHON_ARCHIVE = "python.tar.gz"
UV = "uv"


class BuildError(RuntimeError):
    """The wheelhouse cannot be built; one sentence with the package's name."""


def files_to_fetch(inputs: WheelhouseInputs) -> tuple[LockedFile, ...]:
    """What the indexes must serve: the lock without what the overlay replaces, and uv."""
    replaced = {wheel.package for wheel in inputs.overlay}
    lock, bootstrap = inputs.locks
    return (*(file for file in locked_files(lock) if file.package not in replaced), *locked_files(bootstrap))


def build(inputs: WheelhouseInputs, artifacts: Path, uv: str, progress: FetchProgress) -> dict[str, str]:
    """Make the wheelhouse in the store directory `artifacts`; returns the SHA-256 of its files by their names.

    Raises BuildError, FetchError, LockError, or PatchError where a patched package has drifted.
    """
    fetched = fetch_all(files_to_fetch(inputs), artifacts, progress)
    patched = {patch_set.package: patch_set for patch_set in inputs.patches}
    objects: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=_with_parents(artifacts / PARTIAL)) as name:
        work = Path(name)
        for file, path in fetched.items():
            if file.package == UV:
                objects |= _store(artifacts, _uv_binary(path, work))
                continue
            wheel = _wheel_of(path, uv, work) if file.is_sdist else path
            patch_set = patched.get(file.package)
            if patch_set and patch_set.version == file.version:
                wheel = repack(wheel, patch_set, work)
            objects |= _store(artifacts, wheel)
        for overlay in inputs.overlay:
            objects |= _store(artifacts, overlay.path)
        pins = sorted(_pin(name, sha256) for name, sha256 in objects.items() if name.endswith(".whl"))
        if inputs.python_archive:
            archive = _fetched_python(uv, work) if inputs.python_archive == FETCHED_PYTHON else inputs.python_archive
            renamed = work / PYTHON_ARCHIVE
            shutil.copyfile(archive, renamed)
            objects |= _store(artifacts, renamed)
        requirements = work / REQUIREMENTS
        requirements.write_text("".join(f"{pin}\n" for pin in pins))
        objects |= _store(artifacts, requirements)
        sums = work / "sums"
        sums.write_text(sums_text(objects))
        final = artifacts / wheelhouse_key(inputs.id)
        _with_parents(final.parent)
        sums.replace(final)
    return objects


def _pin(wheel: str, sha256: str) -> str:
    """A wheel as the requirements name it."""
    name, version, _, _ = parse_wheel_filename(wheel)
    return f"{name}=={version} --hash=sha256:{sha256}"


def _store(artifacts: Path, file: Path) -> dict[str, str]:
    """Copies a file into the store unless the store has it; returns its name and hash."""
    digest = sha256_of(file)
    stored = artifacts / object_key(digest, file.name)
    if stored.exists():
        os.utime(stored)  # its age for `slipway gc` starts anew
    else:
        partial = _with_parents(stored.parent) / f".{file.name}.{os.getpid()}"
        shutil.copyfile(file, partial)
        partial.replace(stored)
    return {file.name: digest}


def _with_parents(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _uv_binary(wheel: Path, work: Path) -> Path:
    """Unpacks the program `uv` from its wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(f".data/scripts/{UV}"))
        return Path(archive.extract(member, work))


def _wheel_of(sdist: Path, uv: str, work: Path) -> Path:
    """Build an sdist whose hash the lock has vouched for; its build requirements come from the package index."""
    out = work / f"{sdist.name}.wheel"
    # A fixed time makes the wheel the same on every machine.
    environment = os.environ | {"SOURCE_DATE_EPOCH": "315619200"}
    command = [uv, "build", "--quiet", "--no-config", "--wheel", "--python", "3.12", "--out-dir", str(out), str(sdist)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    wheels = list(out.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise BuildError(f"{sdist.name} has no wheel and cannot be built into one: {_last_line(done.stderr)}")
    if not wheels[0].name.endswith("-none-any.whl") and os.uname().sysname != "Linux":
        raise BuildError(f"{sdist.name} builds a wheel for this system ({wheels[0].name}); build on x86-64 Linux")
    return wheels[0]


def _fetched_python(uv: str, work: Path) -> Path:
    """A relocatable CPython 3.12 from where uv gets its own, as an archive that is the same every time."""
    home = work / "pythons"
    version = "cpython-3.12-linux-x86_64-gnu"
    command = [uv, "python", "install", "--no-config", "--no-bin", "--install-dir", str(home), version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pythons = sorted(path for path in home.glob("cpython-3.12*") if path.is_dir() and not path.is_symlink())
    if done.returncode or not pythons:
        raise BuildError(
            f"uv cannot fetch a CPython 3.12 here ({_last_line(done.stderr)}); give one with --python-archive FILE"
        )
    return pack_python(pythons[-1], work / "fetched.tar.gz")


def pack_python(directory: Path, archive: Path) -> Path:
    """A Python installation as `python/...` in a tar.gz whose bytes depend on nothing but its files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith((".pyc", "/__pycache__")):
            return None
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(directory, arcname="python", recursive=False, filter=plain)
        for path in sorted(directory.rglob("*")):
            tar.add(path, arcname=f"python/{path.relative_to(directory)}", recursive=False, filter=plain)
    return archive


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
