"""A wheelhouse: every wheel of a lock as hosts install it, uv, and a Python where the base lacks one.

Owns the steps from inputs to `wheelhouses/<id>/SHA256SUMS`, which is written last, so a wheelhouse that can be seen is
whole. A build that is cut short leaves its files, and the next build uses them. Hosts get only wheels: sdists are
built, packages with patches are repacked under a local version, an overlay replaces what the lock says. Of hosts that
mount a bucket, the program for that lies beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from infra.artifacts.layout import object_key, sums_text, wheelhouse_key
from infra.artifacts.store import PARTIAL, sha256_of
from infra.host_software.wheels import known_flags, mount_program
from infra.host_software.wheels.fetch import FetchError, FetchProgress, fetch_all
from infra.host_software.wheels.identity import WheelhouseInputs
from infra.host_software.wheels.made import WRITE, made_path, made_sums
from infra.host_software.wheels.mount_program import MountProgram
from infra.host_software.wheels.patches import PatchSet
from infra.host_software.wheels.pythons import ADVICE, HostPython
from infra.host_software.wheels.repack import repack
from infra.host_software.wheels.selection import LockedFile, locked_files
from infra.paths import ROOT

UV = "uv"


class BuildError(RuntimeError):
    """The wheelhouse cannot be built; one sentence with the package's name."""


def files_to_fetch(inputs: WheelhouseInputs) -> tuple[LockedFile, ...]:
    """What must be fetched: a Python that is locked, the lock without what is replaced or left out, and uv."""
    replaced = {wheel.package for wheel in inputs.overlay}.union(inputs.left_out)
    lock, bootstrap = inputs.locks
    wheels = (file for file in locked_files(lock) if file.package not in replaced)
    return (*_python_to_fetch(inputs.python), *wheels, *locked_files(bootstrap))


def build(inputs: WheelhouseInputs, artifacts: Path, uv: str, progress: FetchProgress) -> dict[str, str]:
    """Make the wheelhouse in the store directory `artifacts`; returns the SHA-256 of its files by their names.

    Raises BuildError, FetchError, LockError, MountProgramError, or PatchError where a patched package has drifted.
    """
    python = _python_to_fetch(inputs.python)
    try:
        fetch_all(python, artifacts, progress)
    except FetchError as error:
        raise FetchError(f"{error}; or {ADVICE}") from None
    fetched = fetch_all((file for file in files_to_fetch(inputs) if file not in python), artifacts, progress)
    if inputs.platform == "gpu":
        _check_flags(inputs, fetched)
    patched = _patched(inputs)
    objects: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=_with_parents(artifacts / PARTIAL)) as name:
        work = Path(name)
        for file, path in fetched.items():
            installed = _as_installed(file, path, patched, uv, work)
            objects |= _store(artifacts, installed)
            if installed != path:
                _check_made(installed, objects[installed.name], inputs.training)
        for overlay in inputs.overlay:
            objects |= _store(artifacts, overlay.path)
        if inputs.python:
            objects |= _stored_python(inputs.python, artifacts)
        if inputs.mount_program:
            objects |= _stored_mount_program(inputs.mount_program, artifacts)
        sums = work / "sums"
        sums.write_text(sums_text(objects))
        final = artifacts / wheelhouse_key(inputs.id)
        _with_parents(final.parent)
        sums.replace(final)
    return objects


def make(inputs: WheelhouseInputs, artifacts: Path, uv: str, progress: FetchProgress) -> dict[str, str]:
    """SHA-256 by name of what no lock names, for made.sums; only what that is made of is fetched. Raises as `build`."""
    patched = _patched(inputs)
    files = [
        file
        for file in files_to_fetch(inputs)
        if file.package == UV or file.is_sdist or (file.package, file.version) in patched
    ]
    fetched = fetch_all(files, artifacts, progress)
    with tempfile.TemporaryDirectory(dir=_with_parents(artifacts / PARTIAL)) as name:
        made = [_as_installed(file, path, patched, uv, Path(name)) for file, path in fetched.items()]
        return {path.name: sha256_of(path) for path in made}


def _check_flags(inputs: WheelhouseInputs, fetched: Mapping[LockedFile, Path]) -> None:
    """Raises BuildError for a flag that jaxlib, the lock's or an overlay's, does not know."""
    wheels = [(wheel.path, wheel.version) for wheel in inputs.overlay if wheel.package == "jaxlib"]
    wheels += [(path, file.version) for file, path in fetched.items() if file.package == "jaxlib"]
    if wheels and (problem := known_flags.problem(*wheels[0])):
        raise BuildError(problem)


def _patched(inputs: WheelhouseInputs) -> dict[tuple[str, str], PatchSet]:
    """The patch sets by package and version."""
    return {(patch_set.package, patch_set.version): patch_set for patch_set in inputs.patches}


def _as_installed(
    file: LockedFile, path: Path, patched: Mapping[tuple[str, str], PatchSet], uv: str, work: Path
) -> Path:
    """The same path where hosts install a file as it was fetched."""
    if file.package == UV:
        return _uv_binary(path, work)
    wheel = _wheel_of(path, uv, work) if file.is_sdist else path
    patch_set = patched.get((file.package, file.version))
    return repack(wheel, patch_set, work) if patch_set else wheel


def _check_made(file: Path, sha256: str, training: Path) -> None:
    if f"{sha256}  {file.name}" not in made_sums(training).splitlines():
        raise BuildError(
            f"{file.name} (SHA-256 {sha256[:12]}) is not in training/locks/{made_path().name}, so hosts would refuse "
            f"it: locks or patches have changed; run {WRITE}"
        )


def _python_to_fetch(python: HostPython | None) -> tuple[LockedFile, ...]:
    if python is None or python.path:
        return ()
    locked = python.locked
    return (LockedFile("cpython", locked.version, locked.url_to_fetch(os.environ), locked.sha256),)


def _stored_python(python: HostPython, artifacts: Path) -> dict[str, str]:
    """The archive as an object; a fetched one is there. Raises BuildError for a file that has changed since."""
    if python.path and _store(artifacts, python.path, python.name)[python.name] != python.sha256:
        raise BuildError(f"{python.path} has changed while the wheelhouse was built; run it again")
    return {python.name: python.sha256}


def _stored_mount_program(program: MountProgram, artifacts: Path) -> dict[str, str]:
    stored = artifacts / object_key(program.sha256, mount_program.NAME)
    return _store(artifacts, stored if stored.exists() else mount_program.built(program), mount_program.NAME)


def _store(artifacts: Path, file: Path, name: str = "") -> dict[str, str]:
    """Copies a file into the store unless the store has it; returns its name there and its hash."""
    name = name or file.name
    digest = sha256_of(file)
    stored = artifacts / object_key(digest, name)
    if stored.exists():
        os.utime(stored)  # its age for `slipway gc` starts anew
    else:
        partial = _with_parents(stored.parent) / f".{name}.{os.getpid()}"
        shutil.copyfile(file, partial)
        partial.replace(stored)
    return {name: digest}


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


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
