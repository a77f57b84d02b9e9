"""Which wheelhouse a stack needs, known from sources alone: a preview builds and fetches nothing.

Owns the inputs of a wheelhouse and their hash. Refuses to own how it is built (infra/host_software/wheels/build.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from infra.artifacts.layout import sums_text
from infra.host_software.wheels.locks import LockError, bootstrap_lock, lock_path, read_lock
from infra.host_software.wheels.mount_program import MountProgram
from infra.host_software.wheels.patches import PatchSet, content_hash, load_all
from infra.host_software.wheels.pythons import HostPython
from infra.paths import TRAINING
from training.data.hash_cache import HashCache

_FORM = "1"  # raise it when the same inputs are laid out differently


@dataclass(frozen=True)
class Overlay:
    """A wheel that replaces the locked one of its package."""

    package: str
    version: str
    path: Path
    sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version} ({self.path.name}, sha256 {self.sha256[:12]})"


@dataclass(frozen=True)
class WheelhouseInputs:
    """What a wheelhouse is made from; `id` is 16 hex digits and the same on every machine."""

    platform: str
    channel: str
    id: str
    overlay: tuple[Overlay, ...] = ()
    python: HostPython | None = None  # None: its hosts have a Python 3.12
    mount_program: MountProgram | None = None  # None: its hosts mount no bucket
    left_out: tuple[str, ...] = ()  # packages of the lock that it does not hold
    training: Path = TRAINING  # holds locks/ and patches/

    @property
    def locks(self) -> tuple[Path, Path]:
        """The platform's and the bootstrap lock."""
        return lock_path(self.platform, self.channel, self.training), bootstrap_lock(self.training)

    @property
    def overlay_sums(self) -> str:
        """As sha256sum writes and checks them."""
        return sums_text({wheel.path.name: wheel.sha256 for wheel in self.overlay})

    @property
    def patches(self) -> tuple[PatchSet, ...]:
        return load_all(self.training / "patches")


def wheelhouse_inputs(
    platform: str,
    channel: str,
    hashes: HashCache,
    overlay: Path | None = None,
    python: HostPython | None = None,
    training: Path = TRAINING,
    mount_program: MountProgram | None = None,
    left_out: tuple[str, ...] = (),
) -> WheelhouseInputs:
    """Hash the lock, the patches, the overlay, the Python and the program that mounts, and save `hashes`.

    python: for hosts that have no 3.12. mount_program: for hosts that mount a bucket. left_out: packages of the lock
    that are of no use to who installs it. Raises LockError for what is missing or cannot be used.
    """
    wheels = _overlay(overlay, hashes) if overlay else ()
    digest = hashlib.sha256()
    for part in (_FORM, platform, channel):
        digest.update(part.encode() + b"\0")
    inputs = WheelhouseInputs(platform, channel, "", wheels, python, mount_program, left_out, training)
    for path in inputs.locks:
        digest.update(hashlib.sha256(read_lock(path)).digest())
    for patch_set in inputs.patches:
        digest.update(content_hash(patch_set).encode() + b"\0")
    for wheel in wheels:
        digest.update(f"{wheel.path.name}\0{wheel.sha256}\0".encode())
    if python:
        digest.update(f"python\0{python.name}\0{python.sha256}\0".encode())
    if mount_program:
        digest.update(f"mount program\0{mount_program.sha256}\0".encode())
    for package in left_out:
        digest.update(f"without\0{package}\0".encode())
    hashes.save()
    return dataclasses.replace(inputs, id=digest.hexdigest()[:16])


def _overlay(directory: Path, hashes: HashCache) -> tuple[Overlay, ...]:
    files = sorted(directory.glob("*.whl")) if directory.is_dir() else []
    if not files:
        raise LockError(f"overlay {directory} holds no wheel (*.whl); build or copy the wheels to use there")
    overlays: dict[str, Overlay] = {}
    for path in files:
        try:
            package, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise LockError(f"overlay: {path.name} is not named as a wheel is: {error}") from None
        if package in overlays:
            raise LockError(f"overlay has two wheels of {package}: {overlays[package].path.name} and {path.name}")
        overlays[package] = Overlay(package, str(version), path, hashes.sha256(path))
    return tuple(overlays.values())
