"""The pools of TPU nodes of a stack, one for each slice, as Google's plugin is told of them. Pure.

Owns how a slice of each family is placed, and what each tier means for nodes. A pool and its policy are called after
the topology: the plugin would plan an update for another one, and send nothing. Refuses to own the cluster
(cluster_inputs.py) and whether a size exists (infra/hardware.yaml).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra import hardware
from infra.targets.gke_tpu.cluster_inputs import Inputs, node_config, pool_inputs
from infra.targets.gke_tpu.settings import QUEUED_LABEL, GkeTpuSettings
from infra.tiers import Tier

_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class TpuPool:
    """word: its name in the state. policy: of its placement, where one is made for it; the pool's `policyName`."""

    word: str
    inputs: Inputs
    policy_word: str = ""
    policy: Inputs | None = None


def tpu_pools(settings: GkeTpuSettings) -> list[TpuPool]:
    return [_pool(settings, index, name) for index, name in enumerate(settings.pool_names)]


def _pool(settings: GkeTpuSettings, index: int, name: str) -> TpuPool:
    row = settings.row
    assert row.machine, f"{row.name} has no machine"
    inputs = pool_inputs(settings, name) | {
        "nodeLocations": list(settings.zones),
        "nodeConfig": node_config(settings, row.machine.name) | _node_tier(settings) | _disk(settings),
        **_size(settings),
        **_placement(row),
    }
    if not (row.hosts > 1 and row.gke_workload_policy):
        return TpuPool(f"slice-{index}", inputs)
    policy = {
        "name": f"{settings.cluster_name}-{name}",
        "project": settings.project,
        "region": settings.place,
        "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": row.topology_text},
    }
    # A policy's name is no replacement to the plugin either, so another topology is another resource.
    return TpuPool(f"slice-{index}", inputs, f"placement-{row.topology_text}-{index}", policy)


def _placement(row: hardware.Accelerator) -> Inputs:
    """Nodes of one slice lie beside each other; a single node needs no place."""
    if row.hosts == 1:
        return {}
    # The API keeps no type of a pool with a workload policy, so any other would be a change in each preview.
    kind = "" if row.gke_workload_policy else "COMPACT"
    return {"placementPolicy": {"type": kind, "tpuTopology": row.topology_text}}


def _size(settings: GkeTpuSettings) -> Inputs:
    """All nodes of a slice, or none until they are asked for: no number in between is a slice."""
    hosts = settings.row.hosts
    if settings.tier is not Tier.FLEX_START:
        return {"nodeCount": hosts, "management": {"autoRepair": True, "autoUpgrade": True}}
    queued: Inputs = {"queuedProvisioning": {"enabled": True}} if settings.queued_provisioning else {}
    return queued | {
        "initialNodeCount": 0,
        # By zone: with bounds of all zones together the plugin sends a maximum of 0.
        "autoscaling": {"minNodeCount": 0, "maxNodeCount": hosts, "locationPolicy": "ANY"},
        "management": {"autoRepair": False, "autoUpgrade": True},
    }


def _node_tier(settings: GkeTpuSettings) -> Inputs:
    none: Inputs = {"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}
    match settings.tier:
        case Tier.SPOT:
            return none | {"spot": True}
        case Tier.FLEX_START:
            labels: Inputs = {"labels": {QUEUED_LABEL: "true"}} if settings.queued_provisioning else {}
            return none | labels | {"flexStart": True, "maxRunDuration": f"{settings.max_runtime}s"}
        case Tier.RESERVED:
            affinity: dict[str, Any] = {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": _RESERVATION_KEY,
                "values": [settings.reservation_value],
            }
            return {"reservationAffinity": affinity}
        case _:
            return {}


def _disk(settings: GkeTpuSettings) -> Inputs:
    kind = settings.row.gke_boot_disk
    return {"diskSizeGb": settings.boot_disk_gb} | ({"diskType": kind} if kind else {})
