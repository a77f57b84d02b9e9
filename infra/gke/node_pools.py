"""Pools of nodes with accelerators as Google's plugin is told of them: what those of every accelerator share. Pure.

Owns what each tier means for nodes, and how many there are. Refuses to own how a slice is placed and what its machines
have (infra/targets/<target>/), and the cluster (cluster_inputs.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.gke.cluster_inputs import Inputs, node_config, pool_inputs
from infra.gke.settings import QUEUED_LABEL, GkeSettings
from infra.tiers import Tier

_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class AcceleratorPool:
    """word: its name in the state. policy: of its placement, where one is made for it; the pool's `policyName`."""

    word: str
    inputs: Inputs
    policy_word: str = ""
    policy: Inputs | None = None


def slice_pool(settings: GkeSettings, name: str) -> Inputs:
    """The pool of one slice, without its place."""
    row = settings.row
    assert row.machine, f"{row.name} has no machine"
    return pool_inputs(settings, name) | {
        "nodeLocations": list(settings.zones),
        "nodeConfig": node_config(settings, row.machine.name) | _node_tier(settings) | _disk(settings),
        **_size(settings),
    }


def _size(settings: GkeSettings) -> Inputs:
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


def _node_tier(settings: GkeSettings) -> Inputs:
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


def _disk(settings: GkeSettings) -> Inputs:
    kind = settings.row.gke_boot_disk
    return {"diskSizeGb": settings.boot_disk_gb} | ({"diskType": kind} if kind else {})
