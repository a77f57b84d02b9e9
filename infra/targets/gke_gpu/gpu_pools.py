"""The pools of GPU nodes of a stack, one for each slice, as Google's plugin is told of them. Pure.

Owns what a node with GPUs has: driver, disks, cards, place. Refuses to own what pools of every accelerator share
(infra/gke/node_pools.py) and the networks (infra/gke/data_networks.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.gke.cluster_inputs import Inputs
from infra.gke.data_networks import DataNetwork
from infra.gke.node_pools import AcceleratorPool, slice_pool
from infra.targets.gke_gpu.settings import GkeGpuSettings
from infra.tiers import Tier

_PODS_PER_NODE = 32  # training takes a node whole; each pod costs the cluster two addresses


def gpu_pools(settings: GkeGpuSettings, networks: Sequence[DataNetwork]) -> list[AcceleratorPool]:
    return [
        AcceleratorPool(f"slice-{index}", _pool(settings, name, networks))
        for index, name in enumerate(settings.pool_names)
    ]


def _pool(settings: GkeGpuSettings, name: str, networks: Sequence[DataNetwork]) -> Inputs:
    pool = slice_pool(settings, name)
    cards = [{"network": each.network, "subnetwork": each.subnet} for each in networks]
    return (
        pool
        | {"maxPodsPerNode": _PODS_PER_NODE, "nodeConfig": pool["nodeConfig"] | _node(settings)}
        | ({"networkConfig": pool["networkConfig"] | {"additionalNodeNetworkConfigs": cards}} if cards else {})
        | _placement(settings)
    )


def _node(settings: GkeGpuSettings) -> Inputs:
    row = settings.row
    assert row.machine, f"{row.name} has no machine"
    driver = {"gpuDriverVersion": "LATEST"}  # which one that is, GKE's version says; a host checks it
    accelerators = [
        {"type": row.gke_accelerator, "count": row.chips_per_host, "gpuDriverInstallationConfig": driver},
    ]
    disks = row.machine.local_ssds
    return {
        "imageType": "COS_CONTAINERD",
        "gvnic": {"enabled": True},
        "guestAccelerators": accelerators,
        **({"ephemeralStorageLocalSsdConfig": {"localSsdCount": disks}} if disks else {}),
        **_maintenance(settings),
    }


def _maintenance(settings: GkeGpuSettings) -> Inputs:
    """Seldom, and known before. Nodes that are taken anyway have no such terms."""
    if settings.tier in (Tier.SPOT, Tier.FLEX_START):
        return {}
    return {"hostMaintenancePolicy": {"maintenanceInterval": "PERIODIC"}}


def _placement(settings: GkeGpuSettings) -> Inputs:
    """Nodes of one slice lie beside each other, but for flex-start, which takes them where they are."""
    if settings.row.hosts == 1 or settings.tier is Tier.FLEX_START:
        return {}
    return {"placementPolicy": {"type": "COMPACT"}}
