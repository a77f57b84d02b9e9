"""The pools of TPU nodes of a stack, one for each slice, as Google's plugin is told of them. Pure.

Owns how a slice of each family is placed. A pool and its policy are called after the topology: the plugin would plan an
update for another one, and send nothing. Refuses to own what pools of every accelerator share (infra/gke/node_pools.py)
and whether a size exists (infra/hardware.yaml).
"""

from __future__ import annotations

from infra import hardware
from infra.gke.cluster_inputs import Inputs
from infra.gke.node_pools import AcceleratorPool, slice_pool
from infra.targets.gke_tpu.settings import GkeTpuSettings


def tpu_pools(settings: GkeTpuSettings) -> list[AcceleratorPool]:
    return [_pool(settings, index, name) for index, name in enumerate(settings.pool_names)]


def _pool(settings: GkeTpuSettings, index: int, name: str) -> AcceleratorPool:
    row = settings.row
    inputs = slice_pool(settings, name) | _placement(row)
    if not (row.hosts > 1 and row.gke_workload_policy):
        return AcceleratorPool(f"slice-{index}", inputs)
    policy = {
        "name": f"{settings.cluster_name}-{name}",
        "project": settings.project,
        "region": settings.place,
        "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": row.topology_text},
    }
    # A policy's name is no replacement to the plugin either, so another topology is another resource.
    return AcceleratorPool(f"slice-{index}", inputs, f"placement-{row.topology_text}-{index}", policy)


def _placement(row: hardware.Accelerator) -> Inputs:
    """Nodes of one slice lie beside each other; a single node needs no place."""
    if row.hosts == 1:
        return {}
    # The API keeps no type of a pool with a workload policy, so any other would be a change in each preview.
    kind = "" if row.gke_workload_policy else "COMPACT"
    return {"placementPolicy": {"type": kind, "tpuTopology": row.topology_text}}
