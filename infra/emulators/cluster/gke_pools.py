"""A pool of nodes as the Kubernetes Engine API is asked for it, as the nodes that GKE would make of it.

Owns how machine, topology, zones, tier, labels and taints become nodes. Pure. Refuses to own what GKE does not make of
them (the stand-in for Google's plugin refuses it first: infra/standins/gcp/gke_refusals.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from infra.emulators.cluster.built_programs import Manifest
from infra.emulators.cluster.nodes import NodePool, PoolError, check_known, size_of_machine
from infra.hardware import Accelerator, rows

_FLEX_START = {"cloud.google.com/gke-flex-start": "true"}
_QUEUED = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}

type Pool = Mapping[str, Any]  # of the API, `NodePool`


def node_pools(cluster: str, pool: Pool, count: int | None = None) -> list[NodePool]:
    """One for each of its zones. count: of nodes in each, else what the pool begins with. Raises PoolError."""
    config = _object(pool, "config")
    accelerator = _accelerator(pool)
    zones = cast(Sequence[str], pool["locations"])
    each = count if count is not None else int(pool.get("initialNodeCount") or 0)
    machine = str(config.get("machineType") or "")
    if accelerator is None:
        size_of_machine(machine)
    return [
        NodePool(
            name=str(pool["name"]),
            accelerator=accelerator,
            zone=zone,
            spot=bool(config.get("spot")),
            count=each,
            machine=machine,
            cluster=cluster,
            group=zone.rpartition("-")[2] if len(zones) > 1 else "",
            added_labels=_labels(config),
            added_taints=_taints(pool),
        )
        for zone in zones
    ]


def most_nodes(pool: Pool) -> int:
    """In each zone, of an autoscaled pool; 0 of any other."""
    bounds = _object(pool, "autoscaling")
    return int(bounds.get("maxNodeCount") or 0) if bounds.get("enabled") else 0


def _accelerator(pool: Pool) -> Accelerator | None:
    machine = str(_object(pool, "config").get("machineType") or "")
    topology = str(_object(pool, "placementPolicy").get("tpuTopology") or "")
    of_machine = [row for row in rows() if row.machine and row.machine.name == machine]
    if not of_machine:
        return None
    has = [row for row in of_machine if (row.topology_text == topology if topology else row.hosts == 1)]
    if not has:
        raise PoolError(f"infra/hardware.yaml has no slice of {machine} with topology '{topology or 'of one host'}'")
    check_known(has[0])
    return has[0]


def _labels(config: Mapping[str, Any]) -> dict[str, str]:
    own = {str(key): str(value) for key, value in _object(config, "labels").items()}
    reserved = cast(Sequence[str], _object(config, "reservationAffinity").get("values") or [])
    reservation = {"cloud.google.com/reservation-name": reserved[0].rpartition("/")[2]} if reserved else {}
    return own | (_FLEX_START if config.get("flexStart") else {}) | reservation


def _taints(pool: Pool) -> list[Manifest]:
    given = cast(Sequence[Mapping[str, Any]], _object(pool, "config").get("taints") or [])
    own: list[Manifest] = [{**each, "effect": _EFFECTS[str(each["effect"])]} for each in given]
    return [*own, *([_QUEUED] if _object(pool, "queuedProvisioning").get("enabled") else [])]


def _object(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key)
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
