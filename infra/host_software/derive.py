"""What the hosts of a stack install, decided from sources at preview: wheelhouse and bundle, by id and hash.

Owns the derivation, the same for every target. Refuses to own how it is built (infra/host_software/wheels/,
infra/host_software/bundle.py) and where it is stored: the target names the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.host_software.bundle import BundleContents, collect
from infra.host_software.wheels.identity import WheelhouseInputs, wheelhouse_inputs
from infra.host_software.wheels.locks import LockError, lock_path
from infra.host_software.wheels.mount_program import mount_program
from infra.host_software.wheels.patches import PatchError
from infra.host_software.wheels.python_made_here import archive_name
from infra.host_software.wheels.pythons import LOCKED, host_python
from infra.paths import PYTHONS, ROOT, TRAINING, WORK
from infra.stack_file.settings import SettingsError, Workload
from training.data.hash_cache import HashCache
from training.run_spec import RunSpec

# NVIDIA's libraries that a GPU program is run with and not compiled with: 1.4 of 1.9 GB of wheels.
_NOT_TO_COMPILE = {
    "gpu": tuple(
        f"nvidia-{name}"
        for name in (
            "cublas", "cuda-cccl", "cuda-crt", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cudnn-cu13", "cufft",
            "cusolver", "cusparse", "nccl-cu13", "nvjitlink", "nvshmem-cu13",
        )
    )
}  # fmt: skip


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
        python = (f"python: {wheels.python}",) if wheels.python else ()
        mounts = (f"mount: {wheels.mount_program}",) if wheels.mount_program else ()
        return (line, *python, *mounts, *(f"overlay: {wheel}" for wheel in self.overlay))

    @property
    def build_arguments(self) -> list[str]:
        """Arguments of `slipway wheels build` for this wheelhouse."""
        wheels = self.wheelhouse
        arguments = ["--platform", wheels.platform, "--channel", wheels.channel]
        if wheels.overlay:
            arguments += ["--overlay", str(wheels.overlay[0].path.parent)]
        if wheels.python:
            arguments += ["--python-archive", str(wheels.python.path or LOCKED)]
        if wheels.mount_program:
            arguments.append("--mounts")
        return arguments


def host_software(workload: Workload, spec: RunSpec, work: Path = WORK) -> HostSoftware:
    """Hash what the stack's hosts will install. Raises SettingsError for an overlay or archive that is not there."""
    wheels = wheelhouse(workload, spec.platform, work)
    model_file = ROOT / workload.model_file if workload.model_file else None
    lock = lock_path(spec.platform, workload.channel)
    python = wheels.python.sum_line if wheels.python else ""
    contents = BundleContents(spec.to_yaml(), wheels.id, lock, model_file, python, wheels.overlay_sums)
    return HostSoftware(wheels, contents, collect(TRAINING, contents).hash)


def wheelhouse(workload: Workload, platform: str, work: Path = WORK) -> WheelhouseInputs:
    """Which wheelhouse a platform's hosts install, with a Python where they have none, and what mounts a bucket.

    Raises SettingsError for an overlay, archive or lock that is not there, and for patches that are not whole.
    """
    return _inputs(workload, platform, _python_archive(workload), workload.hosts_mount_data, work)


def compile_environment(workload: Workload, platform: str, work: Path = WORK) -> WheelhouseInputs:
    """What compiles as the stack's hosts will: their wheelhouse without what no compile depends on."""
    return _inputs(workload, platform, None, False, work, _NOT_TO_COMPILE.get(platform, ()))


def _inputs(
    workload: Workload,
    platform: str,
    python_archive: str | None,
    mounts: bool,
    work: Path,
    left_out: tuple[str, ...] = (),
) -> WheelhouseInputs:
    hashes = HashCache(work / "cache" / "overlay-stat.json")
    overlay = ROOT / workload.overlay if workload.overlay else None
    try:
        python = host_python(python_archive, hashes, ROOT) if python_archive else None
        program = mount_program() if mounts else None
        return wheelhouse_inputs(
            platform, workload.channel, hashes, overlay, python, mount_program=program, left_out=left_out
        )
    except (LockError, PatchError) as error:
        raise SettingsError(str(error)) from None


def _python_archive(workload: Workload) -> str | None:
    if workload.python_archive or workload.hosts_have_python:
        return workload.python_archive
    made_here = PYTHONS / archive_name()
    # Hosts that are processes of this machine may have its Python, which the emulator packs; no index is asked for it.
    return str(made_here) if workload.row.emulated and made_here.exists() else LOCKED
