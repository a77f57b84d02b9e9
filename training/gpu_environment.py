"""What NCCL and XLA are told on hosts with GPUs, as one table. A leaf: standard library only.

Owns each value with why it is set, who says so, between which hosts, and for which versions of jaxlib and of the
network's NCCL plugin it holds. Refuses to own how a value reaches a process: pods get variables (infra/pods/), flags go
through training/xla_flags.py. None of it was ever run between two real hosts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NETWORK = "SLIPWAY_NETWORK"  # the variable that tells a host the network by which NCCL reaches the others
SOCKETS = "SLIPWAY_SOCKETS"  # REFUSED where a training over plain sockets shall not go on
REFUSED = "refused"
MEMORY_SHARE = 0.85  # of a GPU's memory; without a word JAX takes 0.75 of it
TCPXO = "tcpxo"

_RELEASE = "GoogleCloudPlatform/container-engine-accelerators 992db812, gpudirect-tcpxo/README.md, Jan 9 2026"
_TEST_POD = "GoogleCloudPlatform/container-engine-accelerators 992db812, gpudirect-tcpxo/nccl-test-latest.yaml"
_MAXTEXT = "AI-Hypercomputer/maxtext e591f30c, configs/gpu/a3/llama_2_7b/2vm.sh"
_NCCL = "NVIDIA/nccl v2.28.7-1, src/debug.cc"


@dataclass(frozen=True)
class Versions:
    """From the first to the last, both included; an empty end is open."""

    first: str = ""
    last: str = ""

    def __contains__(self, version: str) -> bool:
        return (not self.first or _order(self.first) <= _order(version)) and (
            not self.last or _order(version) <= _order(self.last)
        )

    def __str__(self) -> str:
        return f"{self.first or 'any'} to {self.last or 'now'}"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


@dataclass(frozen=True)
class Setting:
    """A variable, or a flag of XLA where the name begins with `--`. network: empty: on all hosts with GPUs."""

    name: str
    value: str
    why: str
    source: str
    network: str = ""
    jaxlib: Versions = Versions()
    plugin: Versions = Versions()

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("--")


@dataclass(frozen=True)
class NcclNetwork:
    """A way between hosts. files: by which NCCL has it, which a host waits for. look: where it failed."""

    name: str
    files: tuple[str, ...]
    look: str


_LIBRARIES = "/usr/local/nvidia/lib64"  # where pods see what driver and plugin have installed
_INSTALLED = (
    *("libnccl-net.so", "libnccl.so.2", "libnccl-tuner.so"),
    *("a3plus_tuner_config.textproto", "a3plus_guest_config.textproto"),
)

NETWORKS: dict[str, NcclNetwork] = {
    TCPXO: NcclNetwork(
        TCPXO,
        tuple(f"{_LIBRARIES}/{name}" for name in _INSTALLED),
        "look at the daemonset nccl-tcpxo-installer of kube-system on this node, and at container tcpxo-daemon of this "
        "pod (docs/a3.md)",
    ),
}


def _tcpxo(name: str, value: str, why: str, source: str = _RELEASE, plugin: Versions | None = None) -> Setting:
    return Setting(name, value, why, source, TCPXO, plugin=plugin or Versions("1.0.14"))


_DATA_NICS = ",".join(f"eth{index}" for index in range(1, 9))

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "--xla_gpu_enable_latency_hiding_scheduler",
        "true",
        "computes while collectives are under way",
        _MAXTEXT,
        jaxlib=Versions("0.11.2"),
    ),
    Setting(
        "--xla_gpu_enable_triton_gemm",
        "false",
        "cuBLAS multiplies: a step of fp8 takes 5% less time and starts two minutes sooner, one of bf16 is as quick",
        "measured on one H200 at a time, docs/fit.md",
        jaxlib=Versions("0.11.2"),
    ),
    Setting(
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        str(MEMORY_SHARE),
        "the share of a GPU's memory that programs have; the rest is CUDA's, cuDNN's and NCCL's",
        "AI-Hypercomputer/maxtext e591f30c, gpu_multi_process_run.sh",
    ),
    Setting("NCCL_DEBUG", "INFO", "NCCL says which network it took; Google's set has WARN", _NCCL),
    Setting("NCCL_DEBUG_SUBSYS", "INIT,NET,ENV", "without a line for each collective, which Google's set has", _NCCL),
    # One collective of many small ones: between hosts what a message costs counts, not what it carries.
    *(
        Setting(f"--xla_gpu_{kind}_combine_threshold_bytes", size, why, _MAXTEXT, TCPXO, Versions("0.11.2"))
        for kind, size, why in (
            ("all_reduce", "67108864", "joins gradients up to 64 MiB"),
            ("all_gather", "134217728", "joins weights up to 128 MiB"),
            ("reduce_scatter", "67108864", "joins gradients up to 64 MiB"),
        )
    ),
    _tcpxo("NCCL_LIB_DIR", _LIBRARIES, "where the plugin's own scripts look for its files"),
    _tcpxo("LD_LIBRARY_PATH", _LIBRARIES, "driver, NCCL and plugin, as the installer puts them there"),
    _tcpxo("NCCL_FASTRAK_CTRL_DEV", "eth0", "hosts meet over the network of the cluster"),
    _tcpxo("NCCL_FASTRAK_IFNAME", _DATA_NICS, "the network cards of the eight GPUs"),
    _tcpxo("NCCL_SOCKET_IFNAME", "eth0", "hosts meet over the network of the cluster"),
    _tcpxo("NCCL_CROSS_NIC", "0", "each network card talks to its twin: the eight networks do not lead to each other"),
    _tcpxo("NCCL_PROTO", "Simple,LL128", "LL128 is quicker for small and middling messages"),
    _tcpxo("NCCL_MIN_NCHANNELS", "4", "fewer do not fill the network cards"),
    _tcpxo("NCCL_TUNER_PLUGIN", "libnccl-tuner.so", "chooses algorithms by what Google has measured"),
    _tcpxo("NCCL_TUNER_CONFIG_PATH", f"{_LIBRARIES}/a3plus_tuner_config.textproto", "what Google has measured"),
    _tcpxo(
        "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
        f"{_LIBRARIES}/a3plus_guest_config.textproto",
        "the plugin compares this environment with it, and ends a job that differs",
    ),
    _tcpxo("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7", "a process has all GPUs of its host, in the order of their NICs"),
    _tcpxo("NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072", "NVLSTree; the plugin ends a job without it"),
    _tcpxo("NCCL_P2P_NET_CHUNKSIZE", "524288", "the size of a piece between hosts"),
    _tcpxo("NCCL_P2P_PCI_CHUNKSIZE", "524288", "the size of a piece over PCIe"),
    _tcpxo("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "the size of a piece over NVLink"),
    _tcpxo("NCCL_FASTRAK_NUM_FLOWS", "2", "flows for each connection"),
    _tcpxo("NCCL_FASTRAK_USE_SNAP", "1", "data go by the daemon's buffers, not by sockets"),
    _tcpxo("NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", "600000", "hosts may come ten minutes after each other"),
    _tcpxo("NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0", "off in Google's set"),
    _tcpxo("NCCL_BUFFSIZE", "8388608", "8 MiB for each channel"),
    _tcpxo("NCCL_NET_GDR_LEVEL", "PIX", "a GPU's data go by the network card on its own PCIe switch"),
    _tcpxo("NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0", "no line for each message"),
    _tcpxo("NCCL_FASTRAK_USE_LLCM", "1", "short messages by memory of the network card"),
    _tcpxo("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices", "where that memory is", _TEST_POD),
    _tcpxo("NCCL_NVLS_ENABLE", "1", "sums in the NVSwitch of a host"),
    _tcpxo(
        "NCCL_DYNAMIC_CHUNK_SIZE",
        "524288",
        "the size of a piece; Google took it out of its set on Nov 19 2025",
        plugin=Versions("1.0.12", "1.0.13"),
    ),
)


def flags(network: str, jaxlib: str) -> tuple[Setting, ...]:
    """XLA's flags on hosts with that network, as far as the jaxlib of that version has them."""
    return tuple(each for each in SETTINGS if each.is_flag and each.network in ("", network) and jaxlib in each.jaxlib)


def variables(network: str, plugin: str) -> tuple[Setting, ...]:
    """Of hosts with that network and its plugin of that version, like v1.0.15."""
    return tuple(
        each for each in SETTINGS if not each.is_flag and each.network in ("", network) and plugin in each.plugin
    )
