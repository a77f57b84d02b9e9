"""What a host with GPUs must have before a training begins: a driver that is new enough, and NCCL's plugin.

Owns these two questions, each asked where a container sees the answer. Refuses to own what NCCL and XLA are told
(training/gpu_environment.py). Not run on a real host of several.
"""

from __future__ import annotations

import importlib.metadata
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from training.gpu_environment import NETWORK, NETWORKS, NcclNetwork
from training.hosts import HostError, NotYetError

DRIVER = Path("/proc/driver/nvidia/version")
# The oldest driver of each CUDA (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
OLDEST_DRIVER: Mapping[str, int] = {"12": 525, "13": 580}
_PATIENCE_S, _PAUSE_S = 600.0, 1.0  # an installer pulls images of a GB when a node is new
_RELEASE = re.compile(r"Kernel Module.*?\s(?P<version>(?P<major>\d+)(\.\d+)+)\s")


def check(
    environ: Mapping[str, str],
    hosts: int,
    cuda: str,
    show: Callable[[str], None],
    patience_s: float = _PATIENCE_S,
    driver: Path = DRIVER,
) -> None:
    """cuda: the major version of the locked JAX.

    Raises HostError for what no waiting mends, NotYetError for a plugin that does not come.
    """
    if driver.exists() and (problem := driver_problem(driver.read_text(), cuda)):
        raise HostError(problem)
    network = NETWORKS.get(environ.get(NETWORK, ""))
    if network and hosts > 1:
        _wait_for(network, show, patience_s)


def locked_cuda() -> str:
    """The CUDA that JAX's plugin here was built for, like 13; empty where there is none."""
    names = (str(found.metadata["Name"]) for found in importlib.metadata.distributions())
    return next((match[1] for name in names if (match := re.fullmatch(r"jax-cuda(\d+)-plugin", name))), "")


def driver_problem(said: str, cuda: str) -> str | None:
    """said: what the kernel's module says of itself. One sentence where it is older than that CUDA needs."""
    found, oldest = _RELEASE.search(said), OLDEST_DRIVER.get(cuda)
    if not found or oldest is None or int(found["major"]) >= oldest:
        return None
    return (
        f"the NVIDIA driver of this host is {found['version']}, and CUDA {cuda}, which the locked JAX is built for, "
        f"needs {oldest} or newer; upgrade the nodes (of GKE: a newer cluster_version)"
    )


def _wait_for(network: NcclNetwork, show: Callable[[str], None], patience_s: float) -> None:
    until, shown = time.monotonic() + patience_s, False
    while absent := next((file for file in network.files if not Path(file).exists()), None):
        if not shown:
            show(f"waits for {absent}, of NCCL's plugin for {network.name}")
            shown = True
        if time.monotonic() >= until:
            raise NotYetError(
                f"this host has no {absent}, of NCCL's plugin for {network.name}: the image lacks it, or it was not "
                f"installed on the node; {network.look}"
            )
        time.sleep(_PAUSE_S)
