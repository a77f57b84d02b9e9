"""What the hosts of a stack install, decided from sources at preview: wheelhouse and bundle, by id and hash.

Owns the derivation, the same for every target. Refuses to own how it is built (infra/host_software/wheels/,
infra/host_software/bundle.py) and where it is stored: the target names the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.host_software.bundle import BundleContents, collect
from infra.host_software.wheels.identity import FETCHED_PYTHON, WheelhouseInputs, wheelhouse_inputs
from infra.host_software.wheels.locks import LockError, lock_path
from infra.host_software.wheels.patches import PatchError
from infra.paths import ROOT, TRAINING, WORK
from infra.stack_file.settings import SettingsError, Workload
from training.data.hash_cache import HashCache
from training.run_spec import RunSpec


@dataclass(frozen=True)
class HostSoftware:
    """`contents` is what `up` makes the bundle of; `bundle` is the hash that it must have."""

    wheelhouse: WheelhouseInputs
    contents: BundleContents
    bundle: str

    @property
    def overlay(self) -> list[str]:
        return [str(wheel) for wheel in self.wheelhouse.overlay]

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on what a reviewer should know of this software."""
        wheels = self.wheelhouse
        line = f"hosts install wheelhouse {wheels.id} ({wheels.platform}, {wheels.channel}) and bundle {self.bundle}"
        return (line, *(f"overlay: {wheel}" for wheel in self.overlay))

    @property
    def build_arguments(self) -> list[str]:
        """Arguments of `slipway wheels build` for this wheelhouse."""
        wheels = self.wheelhouse
        arguments = ["--platform", wheels.platform, "--channel", wheels.channel]
        if wheels.overlay:
            arguments += ["--overlay", str(wheels.overlay[0].path.parent)]
        if wheels.python_archive:
            arguments += ["--python-archive", str(wheels.python_archive)]
        return arguments


def host_software(workload: Workload, spec: RunSpec, work: Path = WORK) -> HostSoftware:
    """Hash what the stack's hosts will install. Raises SettingsError for an overlay or archive that is not there."""
    wheels = wheelhouse(workload, spec.platform, work)
    model_file = ROOT / workload.model_file if workload.model_file else None
    lock = lock_path(spec.platform, workload.channel)
    contents = BundleContents(spec.to_yaml(), wheels.id, lock, model_file)
    return HostSoftware(wheels, contents, collect(TRAINING, contents).hash)


def wheelhouse(workload: Workload, platform: str, work: Path = WORK) -> WheelhouseInputs:
    """Which wheelhouse a platform's hosts install.

    Raises SettingsError for an overlay or archive that is not there, and for patches that are not whole.
    """
    hashes = HashCache(work / "cache" / "overlay-stat.json")
    overlay = ROOT / workload.overlay if workload.overlay else None
    try:
        return wheelhouse_inputs(platform, workload.channel, hashes, overlay, _python_archive(workload))
    except (LockError, PatchError) as error:
        raise SettingsError(str(error)) from None


def compile_environment(workload: Workload, platform: str, work: Path = WORK) -> WheelhouseInputs:
    """What compiles as the stack's hosts will: their wheelhouse without its Python, which no compile depends on."""
    return wheelhouse(workload.model_copy(update={"python_archive": None}), platform, work)


def _python_archive(workload: Workload) -> Path | str | None:
    archive = workload.python_archive
    if archive is None or archive == FETCHED_PYTHON:
        return archive
    if not (ROOT / archive).is_file():
        raise SettingsError(f"python_archive is '{archive}', which is no file; give one, or `{FETCHED_PYTHON}`")
    return ROOT / archive
