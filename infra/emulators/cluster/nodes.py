"""Nodes as GKE makes them, from the hardware table: one for each host of a slice, and one without accelerators.

Owns their labels, taints and capacities. Pure. Refuses to own whether a size exists (infra/hardware.yaml).
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infra.emulators.cluster.built_programs import Manifest
from infra.hardware import Accelerator, Api, find
from infra.sentences import SentenceError

POOL = "cloud.google.com/gke-nodepool"
_MIB_PER_GIB = 1024
_ADDRESSES = ipaddress.ip_network("10.128.0.0/12")
_PODS = 110  # the most that GKE lets a node have, unless a pool says less
_SYSTEM_MACHINE = "e2-standard-8"
_GIB_PER_VCPU = {"standard": 4, "highmem": 8, "highcpu": 1}  # of the series that Google sells today
_RESOURCES = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}


class PoolError(SentenceError):
    """A pool that GKE would not have, or of which too little is known."""


@dataclass(frozen=True)
class NodePool:
    """Nodes of a pool in one zone: all of a slice, or of `accelerator` None a single one, unless `count` says other.

    machine: of nodes without accelerators. group: tells its nodes from those of the same pool in other zones.
    added_labels, added_taints: beside those that GKE gives.
    """

    name: str
    accelerator: Accelerator | None
    zone: str
    spot: bool = False
    count: int | None = None
    machine: str = _SYSTEM_MACHINE
    cluster: str = "slipway"
    group: str = ""
    added_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    added_taints: Sequence[Manifest] = ()

    @property
    def nodes(self) -> int:
        if self.count is not None:
            return self.count
        return self.accelerator.hosts if self.accelerator else 1

    @property
    def machine_type(self) -> str:
        return self.accelerator.machine.name if self.accelerator and self.accelerator.machine else self.machine

    @property
    def node_names(self) -> list[str]:
        """As GKE begins them."""
        group = f"{self.name}-{self.group}" if self.group else self.name
        return [f"gke-{self.cluster}-{group}-{index}" for index in range(self.nodes)]


def pools(sizes: Sequence[str], zone: str | None = None) -> list[NodePool]:
    """A pool of each size, in the zone or else the first that Google documents, and one of CPU nodes.

    Raises UnknownAcceleratorError or PoolError.
    """
    accelerators = [find(size) for size in sizes]
    made: list[NodePool] = []
    for index, accelerator in enumerate(accelerators):
        if Api.GKE not in accelerator.apis:
            raise PoolError(f"accelerator '{accelerator.name}' is not to be had on GKE; see `slipway hardware gke`")
        check_known(accelerator)
        before = sum(each.name == accelerator.name for each in accelerators[:index])
        at = zone or (accelerator.zones_documented or accelerator.zones)[0]
        made.append(NodePool(f"{accelerator.name}-{before}", accelerator, at))
    return [NodePool("default-pool", None, made[0].zone if made else zone or "us-central1-a"), *made]


def check_known(accelerator: Accelerator) -> None:
    """Raises PoolError where too little is known of a host to make a node of it."""
    if not (accelerator.machine and accelerator.machine.vcpus and accelerator.machine.memory_gb):
        raise PoolError(
            f"accelerator '{accelerator.name}': infra/hardware.yaml does not say how many vCPUs and how much "
            f"memory its hosts have, so its nodes would be guesses; take another size"
        )


def missing(pools: Sequence[NodePool], there: Sequence[Manifest]) -> list[Manifest]:
    """Nodes of these pools that are not there, each with an address that no other has."""
    names = {node["metadata"]["name"] for node in there}
    wanted = [(pool, name) for pool in pools for name in pool.node_names]
    addresses = [each for node in there for each in node["status"].get("addresses", ())]
    taken = [int(ipaddress.ip_address(each["address"])) for each in addresses if each["type"] == "InternalIP"]
    free = itertools.count(max(taken, default=int(_ADDRESSES.network_address)) + 1)
    return [_node(pool, name, str(ipaddress.ip_address(next(free)))) for pool, name in wanted if name not in names]


def not_ready(there: Sequence[Manifest]) -> list[str]:
    """Names of the nodes that do not say that they are."""
    return [node["metadata"]["name"] for node in there if not _is_ready(node)]


def _is_ready(node: Manifest) -> bool:
    conditions: list[Manifest] = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _node(pool: NodePool, name: str, address: str) -> Manifest:
    resources = _capacity(pool)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(pool) | {"kubernetes.io/hostname": name}},
        "spec": {"taints": taints(pool)},
        "status": {
            "capacity": resources,
            "allocatable": _allocatable(resources),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        },
    }


def labels(pool: NodePool) -> dict[str, str]:
    """Those that a workload may select by."""
    accelerator = pool.accelerator
    found = {
        POOL: pool.name,
        "cloud.google.com/machine-family": pool.machine_type.partition("-")[0],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": pool.machine_type,
        "topology.kubernetes.io/region": pool.zone.rpartition("-")[0],
        "topology.kubernetes.io/zone": pool.zone,
    }
    if accelerator and accelerator.platform == "tpu":
        found["cloud.google.com/gke-tpu-accelerator"] = str(accelerator.gke_accelerator)
        found["cloud.google.com/gke-tpu-topology"] = str(accelerator.topology_text)
    elif accelerator:
        found["cloud.google.com/gke-accelerator"] = str(accelerator.gke_accelerator)
    if pool.spot:
        found["cloud.google.com/gke-spot"] = "true"
    return found | dict(pool.added_labels)


def taints(pool: NodePool) -> list[Manifest]:
    """What a pod must tolerate to be scheduled there."""
    if not pool.accelerator:
        return [*pool.added_taints]
    own = {"key": _RESOURCES[pool.accelerator.platform], "value": "present", "effect": "NoSchedule"}
    return [own, *pool.added_taints]


def _capacity(pool: NodePool) -> dict[str, str]:
    accelerator = pool.accelerator
    machine = accelerator.machine if accelerator else None
    if machine and machine.vcpus and machine.memory_gb:
        vcpus, gib = machine.vcpus, machine.memory_gb
    else:
        vcpus, gib = size_of_machine(pool.machine)
    found = {"cpu": str(vcpus), "memory": f"{gib * _MIB_PER_GIB}Mi", "ephemeral-storage": "98Gi", "pods": str(_PODS)}
    if accelerator:
        found[_RESOURCES[accelerator.platform]] = str(accelerator.chips_per_host)
    return found


def size_of_machine(machine: str) -> tuple[int, int]:
    """vCPUs and GiB of a machine without accelerators, which its name tells. Raises PoolError where it does not."""
    parts = re.fullmatch(r"[a-z]\d[a-z]?-(standard|highmem|highcpu)-(\d+)", machine)
    if parts is None:
        raise PoolError(f"machine type '{machine}' does not tell how large it is; give one like {_SYSTEM_MACHINE}")
    return int(parts[2]), int(parts[2]) * _GIB_PER_VCPU[parts[1]]


def _allocatable(capacity: dict[str, str]) -> dict[str, str]:
    """Without what GKE keeps for the kubelet and the system, by the formula that it publishes."""
    vcpus = int(capacity["cpu"])
    mib = int(capacity["memory"].removesuffix("Mi"))
    return capacity | {
        "cpu": f"{vcpus * 1000 - reserved_millicpus(vcpus)}m",
        "memory": f"{mib - reserved_mib(mib)}Mi",
        "ephemeral-storage": "47Gi",
    }


def reserved_millicpus(vcpus: int) -> int:
    """6% of the first core, 1% of the second, 0.5% of the next two, 0.25% of all others."""
    parts = ((1, 60.0), (1, 10.0), (2, 5.0), (vcpus, 2.5))
    return round(_in_parts(vcpus, parts))


def reserved_mib(mib: int) -> int:
    """25% of the first 4 GiB, 20% of the next 4, 10% of the next 8, 6% of the next 112, 2% beyond; 100 MiB to evict."""
    gib = _MIB_PER_GIB
    parts = ((4 * gib, 0.25), (4 * gib, 0.2), (8 * gib, 0.1), (112 * gib, 0.06), (mib, 0.02))
    return round(_in_parts(mib, parts)) + 100


def _in_parts(amount: int, parts: Sequence[tuple[int, float]]) -> float:
    total, left = 0.0, amount
    for size, share in parts:
        taken = min(left, size)
        total += taken * share
        left -= taken
    return total
