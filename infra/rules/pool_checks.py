"""Pools of GKE nodes that Google's plugin lets pass at a preview and Google refuses, or makes into something else.

Each takes a pool as declared, and returns None or what is wrong and what to write. Pure. Refuses to own values and
their forms (google_checks.py) and when a rule is asked (guardrails.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from infra import hardware

FLEX_START_LIMIT_S = 7 * 86_400  # docs.cloud.google.com/tpu/docs/flex-start, read 2026-11-20


def pool_problem(pool: Mapping[str, Any]) -> str | None:
    """pool: the inputs of a node pool, of which some may not be known yet."""
    for check in (_tier, _flex_start, _queued, _reservation, _size, _placement, _gpus, _cards):
        if problem := check(pool):
            return problem
    return None


def _tier(pool: Mapping[str, Any]) -> str | None:
    nodes = _object(pool, "nodeConfig")
    given = [key for key in ("spot", "preemptible", "flexStart") if nodes.get(key) is True]
    return f"nodeConfig has {' and '.join(given)}; a node is had on one of these terms" if len(given) > 1 else None


def _flex_start(pool: Mapping[str, Any]) -> str | None:
    nodes = _object(pool, "nodeConfig")
    if nodes.get("flexStart") is not True:
        return None
    length = nodes.get("maxRunDuration")
    if length is None:
        return "nodeConfig.flexStart is true without maxRunDuration; give one of at most 7 days, like 86400s"
    if isinstance(length, str) and not _is_length(length):
        return f"nodeConfig.maxRunDuration is {length!r}; give seconds, at most 7 days: {FLEX_START_LIMIT_S}s"
    if _object(pool, "management").get("autoRepair") is not False:
        return "management.autoRepair is not false, but nodes of flex-start are not repaired; set it to false"
    if "nodeCount" in pool or not pool.get("autoscaling"):
        return "nodes of flex-start come when pods wait for them; leave nodeCount out, and give autoscaling from 0"
    return None


def _is_length(text: str) -> bool:
    number = text.removesuffix("s")
    return text.endswith("s") and number.isdecimal() and 0 < int(number) <= FLEX_START_LIMIT_S


def _queued(pool: Mapping[str, Any]) -> str | None:
    queued = _object(pool, "queuedProvisioning").get("enabled") is True
    if queued and _object(pool, "nodeConfig").get("flexStart") is not True:
        return "queuedProvisioning is on without nodeConfig.flexStart; set flexStart to true, or leave it out"
    return None


def _reservation(pool: Mapping[str, Any]) -> str | None:
    nodes = _object(pool, "nodeConfig")
    affinity = _object(nodes, "reservationAffinity")
    kind = affinity.get("consumeReservationType")
    if kind == "SPECIFIC_RESERVATION" and not (affinity.get("key") and affinity.get("values")):
        return "reservationAffinity is SPECIFIC_RESERVATION without key and values; name the reservation"
    if kind in ("ANY_RESERVATION", "SPECIFIC_RESERVATION") and (nodes.get("spot") or nodes.get("flexStart")):
        return f"reservationAffinity is {kind}, but spot and flex-start take none; give NO_RESERVATION"
    return None


def _size(pool: Mapping[str, Any]) -> str | None:
    bounds = _object(pool, "autoscaling")
    if bounds and "nodeCount" in pool:
        return "nodeCount is given beside autoscaling, which would change it back and forth; leave one of them out"
    together = [key for key in ("totalMinNodeCount", "totalMaxNodeCount") if key in bounds]
    if together and _object(pool, "placementPolicy").get("tpuTopology"):
        return f"autoscaling has {together[0]}, which the plugin sends as a maximum of 0; bound a slice by zone"
    return None


def _placement(pool: Mapping[str, Any]) -> str | None:
    place, machine = _object(pool, "placementPolicy"), _object(pool, "nodeConfig").get("machineType")
    of_machine = [row for row in hardware.rows("tpu") if row.machine and row.machine.name == machine]
    size = next((row for row in of_machine if row.topology_text == place.get("tpuTopology")), None)
    if size and size.hosts == 1:
        return f"topology {size.topology_text} of {machine} is one host and needs no place; leave placementPolicy out"
    if place.get("type") == "COMPACT" and any(row.gke_workload_policy for row in of_machine):
        return (
            f"placementPolicy.type is COMPACT, and {machine} is placed by a workload policy; make one, and give its "
            f"policyName and an empty type"
        )
    return None


def _gpus(pool: Mapping[str, Any]) -> str | None:
    """A machine with GPUs has as many as it was built with, of one kind."""
    nodes = _object(pool, "nodeConfig")
    row, given = _of_gpus(nodes), nodes.get("guestAccelerators")
    if row is None or not isinstance(given, list):
        return None
    for each in (cast(Mapping[str, Any], one) for one in cast(list[object], given) if isinstance(one, Mapping)):
        has = (each.get("type"), each.get("count"))
        if all(isinstance(value, str | int) for value in has) and has != (row.gke_accelerator, row.chips_per_host):
            machine = nodes.get("machineType")
            return (
                f"guestAccelerators are {has[1]} {has[0]}; a {machine} has {row.chips_per_host} {row.gke_accelerator}"
            )
    return None


def _cards(pool: Mapping[str, Any]) -> str | None:
    nodes = _object(pool, "nodeConfig")
    row, cards = _of_gpus(nodes), _object(pool, "networkConfig").get("additionalNodeNetworkConfigs")
    if row is None or row.data_nics is None or not isinstance(cards, list):
        return None
    named = len(cast(list[object], cards))
    if named in (0, row.data_nics):
        return None
    return (
        f"networkConfig names {named} networks beside the first, but a {nodes.get('machineType')} has {row.data_nics} "
        f"network cards for data, each in one of its own; name as many"
    )


def _of_gpus(nodes: Mapping[str, Any]) -> hardware.Accelerator | None:
    machine = nodes.get("machineType")
    return next((row for row in hardware.rows("gpu") if row.machine and row.machine.name == machine), None)


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return cast(Mapping[str, Any], found) if isinstance(found, Mapping) else {}
