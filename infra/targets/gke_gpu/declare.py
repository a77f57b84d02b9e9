"""Target `gke-gpu`: hands what was decided to the component. Not run on real hardware.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
"""

from __future__ import annotations

from infra.gke.cluster_args import cluster_args
from infra.gke.component import GkeArgs, GkeCluster
from infra.gke.data_networks import DataNetwork, existing_networks, made_networks
from infra.pods import gpu_networks
from infra.preview.stack_plan import TrainingPlan
from infra.targets.gke_gpu.gpu_pools import gpu_pools
from infra.targets.gke_gpu.node_objects import node_objects
from infra.targets.gke_gpu.settings import GkeGpuSettings


def declare(plan: TrainingPlan[GkeGpuSettings]) -> None:
    """Declare the stack's resources."""
    GkeCluster(plan.settings.stack, gpu_cluster_args(plan))


def gpu_cluster_args(plan: TrainingPlan[GkeGpuSettings]) -> GkeArgs:
    """The component's arguments of a plan."""
    settings = plan.settings
    networks = data_networks(settings)
    pools, objects = gpu_pools(settings, networks), node_objects(settings, networks)
    return cluster_args("GpuCluster", plan, pools, networks, objects)


def data_networks(settings: GkeGpuSettings) -> list[DataNetwork]:
    """Of the cards of a node; none where its hosts need none."""
    mtu = gpu_networks.mtu(settings.network_of_gpus)
    if mtu is None:
        return []
    if settings.data_networks:
        return existing_networks(settings, settings.data_networks, mtu)
    return made_networks(settings, mtu)
