"""What XLA's GPU compiler is told of a GPU that is not here, and how its answer is judged.

Owns the cards that are known, the text in which XLA wants one described, and the error of the answer: the compiler
reserves nothing and refuses nothing, so what a program needs is compared here with what programs have of a card. How
far that is from a real card was measured on one H200 (measurements.py, docs/fit.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from infra.hardware import Accelerator
from infra.host_software.wheels.locks import LockError
from infra.host_software.wheels.selection import locked_version
from infra.preview.fit.errors import MEMORY_KEYS
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import SettingsError
from training.gpu_environment import MEMORY_SHARE, flags

ERROR = 0.03  # of the peak; the largest found is 0.026, of fp8 (tests/unit/test_gpu_target.py)
_GIB = 2**30
_DUMPS = "--xla_dump"  # files that are wanted of hosts, not of whoever previews


@dataclass(frozen=True)
class Card:
    """As CUDA names and sizes it. `memory` is in bytes, all of it; `bandwidth` of that memory in bytes a second."""

    name: str
    memory: int
    bandwidth: int


# Both are Hopper: 132 multiprocessors of compute capability 9.0. Sizes: an H100 as openxla/xla has it
# (backends/gpu/target_config/specs/h100_sxm.txtpb), an H200 as CUDA said it of the one measured.
CARDS = {
    "h100": Card("NVIDIA H100 80GB HBM3", 84_942_979_072, 3_352_320_000_000),
    "h200": Card("NVIDIA H200", 150_111_343_957, 4_800_000_000_000),
}

_HOPPER = """\
gpu_device_info {
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98 threads_per_warp: 32
  threads_per_block_limit: 1024 threads_per_core_limit: 2048
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  l2_cache_size: 52428800 device_address_bits: 64 pcie_bandwidth: 34359738368 ecc_enabled: true
  device_memory_size: %(memory)d memory_bandwidth: %(bandwidth)d
  device_vendor: "NVIDIA Corporation" name: "%(name)s" platform_version: "Compute Capability 9.0a"
  driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0" dnn_version: "%(cudnn)s"
  device_interconnect_info { active_links: 18 }
}
platform_name: "CUDA"
dnn_version_info { major: %(major)s minor: %(minor)s patch: %(patch)s }
device_description_str: "%(name)s"
"""


@dataclass(frozen=True)
class GpuTarget:
    """`card` is the text that XLA reads, `flags` are its flags on hosts, `hbm_gib` is what programs have of a card."""

    card: str
    cudnn: str  # like 9.28.0
    flags: tuple[str, ...]
    hosts: int
    devices_per_host: int
    hbm_gib: float


def of(row: Accelerator, network: str, channel: str, own: Iterable[str] = ()) -> GpuTarget | None:
    """None for a card that nobody has described. network: between hosts, as training/gpu_environment.py names it.

    own: flags of the stack, which win over those that hosts get anyway.

    Raises SettingsError for a channel without a lock.
    """
    card = CARDS.get(row.chip)
    if card is None:
        return None
    try:
        jaxlib, cudnn = (locked_version(package, row.platform, channel) for package in ("jaxlib", "nvidia-cudnn-cu13"))
    except LockError as error:
        raise SettingsError(str(error)) from None
    major, minor, patch = cudnn.split(".")[:3]
    version = {"cudnn": f"{major}.{minor}.{patch}", "major": major, "minor": minor, "patch": patch}
    text = _HOPPER % (dataclasses.asdict(card) | version)
    of_hosts = {each.name: f"{each.name}={each.value}" for each in flags(network, jaxlib)}
    of_hosts |= {flag.partition("=")[0]: flag for flag in own if not flag.startswith(_DUMPS)}
    hbm_gib = round(card.memory * MEMORY_SHARE / _GIB, 2)
    return GpuTarget(text, version["cudnn"], tuple(of_hosts.values()), row.hosts, row.devices_per_host, hbm_gib)


def judged(compiled: FitVerdict) -> FitVerdict:
    """A compiled step's verdict: what its peak, with the error on top, leaves of the memory."""
    peak, available = compiled.peak_gib, compiled.hbm_gib
    assert peak is not None and available is not None
    wanted = peak * (1 + ERROR)
    if wanted <= available:
        return dataclasses.replace(compiled, fits=True)
    reason = (
        f"out of memory: the train step wants {peak:.2f} GiB of HBM per device by XLA's compiler, which may be "
        f"{ERROR:.0%} too few, and {available:.2f} are there ({wanted - available:.2f} too many)"
    )
    return dataclasses.replace(compiled, fits=False, reason=reason, keys=MEMORY_KEYS)
