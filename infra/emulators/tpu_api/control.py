"""What people and scripts do to the emulator over HTTP: everything below /_/, and the page at /.

Owns the names of these calls and what the page is told. Refuses to own what they do (levers.py).

    GET  /_/state                     what the page shows
    GET  /_/calls, DELETE /_/calls    calls of the API until now
    POST /_/advance                   {"seconds": 60}
    POST /_/capacity                  {"zone": "us-east5-b", "accelerator": "v6e", "chips": 64}; null is no limit
    POST /_/stockout                  {"zone": "us-east5-b", "accelerator": "v6e-32"}
    POST /_/refuse                    {"zone": "us-east5-b", "how": "no capacity", "accelerator": "v6e",
                                       "stays": false}; how is one of: location policy, not in zone,
                                       no capacity, none for sale, and null, which lifts it
    POST /_/quota                     {"project": "p", "place": "us-east5-b", "family": "v6e", "units": 64,
                                       "tier": "spot"}; a place is a zone or a region
    POST /_/reservation               {"name": "projects/p/locations/us-east5-b/reservations/r", "family": "v6e",
                                       "chips": 64}
    POST /_/preempt                   {"name": "projects/p/locations/us-east5-b/queuedResources/q"}, or a node's name
    POST /_/fail                      {"name": ..., "message": "why"}: the request is FAILED
    POST /_/ready                     {"node": ..., "worker": 0, "ready": true}; without a worker, all of the node
    POST /_/attribute                 {"node": ..., "worker": 0, "namespace": "a", "key": "b", "value": "c"}
    POST /_/reboot                    {"node": ..., "worker": 0}; without a worker, all of the node
    POST /_/network                   {"node": ..., "worker": 0, "up": false}: cut off from the other hosts
    POST /_/node                      {"node": ..., "state": "REPAIRING", "health": "TIMEOUT", "why": "..."}
    POST /_/maintenance               {"node": ..., "in_s": 600, "takes_s": 3600, "ongoing": false}; null takes it back
    POST /_/speed                     {"speed": 60}
    GET  /_/faults, POST /_/faults    {"kind": "CUT_AFTER", "rpc": "CreateQueuedResource", "skip": 0, "times": 1, ...}
    DELETE /_/faults                  forgets all faults, and lets go what they hold
    POST /_/release                   lets go what faults hold
    GET  /_/snapshot, POST /_/restore the whole cloud as JSON
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from infra.emulators.call_faults import Call, Fault
from infra.emulators.rpc_emulator import Act
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.cloud import Cloud
from infra.emulators.tpu_api.levers import instance_name
from infra.emulators.tpu_api.pools import QuotaTier, ZoneRefusal, quota_unit
from infra.emulators.tpu_api.records import GuestAttribute, Node, NodeState
from infra.hardware import find
from infra.targets.phases import BOOTING
from infra.tiers import Tier


class Emulator(Protocol):
    """What a script and the page may look at and change of the server (server.py)."""

    cloud: Cloud
    calls: list[Call]
    faults: list[Fault]
    speed: float


_RECENT = 60
_SHOWN_OF_HOSTS = ("phase", "reason", "step", "steps", "loss", "tokens_per_s", "updated")


def state(api: Emulator) -> dict[str, Any]:
    """What the page shows: no metadata of nodes, no bodies of calls."""
    ledger = api.cloud.ledger
    return {
        "now_s": ledger.now_s,
        "speed": api.speed,
        "requests": [_request(api, name) for name in sorted(ledger.requests)],
        "nodes": [_node(api, name) for name in sorted(ledger.nodes)],
        "hosts": [host for name in sorted(ledger.nodes) for host in _booted_hosts(api, name)],
        "capacities": _capacities(api),
        "quotas": _quotas(api),
        "reservations": _reservations(api),
        "refused": [vars(refused) for refused in ledger.pools.refused],
        "operations": [_operation(api, name) for name in list(ledger.operations)[-_RECENT:]][::-1],
        "calls": [call.to_json() for call in api.calls[-_RECENT:]][::-1],
        "faults": [fault.to_json() for fault in api.faults if fault.times],
        "events": [vars(event) for event in ledger.events[-_RECENT:]][::-1],
        "call_count": api.calls[-1].number if api.calls else 0,
    }


def _request(api: Emulator, name: str) -> dict[str, Any]:
    request = api.cloud.ledger.requests[name]
    nodes = [api.cloud.ledger.nodes[node] for node in request.node_names if node in api.cloud.ledger.nodes]
    row, slices = find(request.accelerator), len(request.node_names)
    return _named(name) | {
        "accelerator": request.accelerator,
        "slices": slices,
        "chips": row.chips * slices,
        "tier": request.tier,
        "state": request.state,
        "since_s": request.since_s,
        "expires_s": request.expires_s,
        "failure": request.failure.message if request.failure else "",
        "hosts": row.hosts * slices,
        "hosts_ready": sum(api.cloud.levers.hosts_ready(node) for node in nodes),
        "labels": dict(request.message.tpu.node_spec[0].node.labels),
    }


def _node(api: Emulator, name: str) -> dict[str, Any]:
    node = api.cloud.ledger.nodes[name]
    hosts = [api.cloud.levers.is_ready(node, worker) for worker in range(len(node.hosts))]
    return _named(name) | {
        "accelerator": node.accelerator,
        "tier": node.tier,
        "state": node.state,
        "health": node.health,
        "health_description": node.health_description,
        "hosts": hosts,
        "hosts_ready": sum(hosts),
        "maintenance": node.maintenance.get("windowStartTime", ""),
        "labels": dict(node.message.labels),
    }


def _booted_hosts(api: Emulator, name: str) -> list[dict[str, Any]]:
    """What the hosts of a node have said last of their training; none of a node whose hosts are pretended or off."""
    node = api.cloud.ledger.nodes[name]
    if node.state is not NodeState.READY or not api.cloud.ledger.boots(node.accelerator):
        return []
    return [_booted_host(api, node, worker) for worker in range(len(node.hosts))]


def _booted_host(api: Emulator, node: Node, worker: int) -> dict[str, Any]:
    name, report = instance_name(node, worker), api.cloud.levers.report(node, worker)
    status = api.cloud.levers.status_of(name) or (report.status if report else None)
    shown = dataclasses.asdict(status) if status else {"phase": report.phase if report else BOOTING}
    return {key: shown.get(key) for key in _SHOWN_OF_HOSTS} | {"name": name, "node": node.name.rpartition("/")[2]}


def _named(name: str) -> dict[str, Any]:
    place = Place.of(name)
    return {"name": name, "id": name.rpartition("/")[2], "project": place.project, "zone": place.zone}


def _operation(api: Emulator, name: str) -> dict[str, Any]:
    operation = api.cloud.ledger.operations[name]
    return {
        "id": name.rpartition("/")[2],
        "verb": operation.verb,
        "target": "/".join(operation.target.split("/")[4:]),
        "create_s": operation.create_s,
        "done": operation.is_done(api.cloud.ledger.now_s),
        "error": operation.failure.message if operation.failure else "",
    }


def _capacities(api: Emulator) -> list[dict[str, Any]]:
    """Every limit that was set, and every family that is in use somewhere."""
    pools = api.cloud.ledger.pools
    claims = [claim for claim in api.cloud.ledger.capacity_claims() if claim.tier is not Tier.RESERVED]
    shown = {(limit.zone, limit.accelerator): limit.chips for limit in pools.capacities}
    drawing = [request for request in api.cloud.ledger.requests.values() if request.tier is not Tier.RESERVED]
    places = {(Place.of(request.name).zone, find(request.accelerator).family) for request in drawing}
    places |= {(claim.zone, claim.row.family) for claim in claims}
    return [
        {
            "zone": zone,
            "accelerator": name,
            "used": sum(c.chips for c in claims if c.zone == zone and name in (c.row.name, c.row.family)),
            "chips": shown.get((zone, name)),
        }
        for zone, name in sorted({*shown, *places})
    ]


def _quotas(api: Emulator) -> list[dict[str, Any]]:
    claims = api.cloud.ledger.quota_claims()
    return [
        {
            **vars(limit),
            "unit": quota_unit(limit.family),
            "used": sum(claim.quota_units for claim in claims if limit.concerns(claim)),
        }
        for limit in api.cloud.ledger.pools.quotas
    ]


def _reservations(api: Emulator) -> list[dict[str, Any]]:
    claims = api.cloud.ledger.capacity_claims()
    return [
        {**vars(reservation), "used": sum(claim.chips for claim in claims if claim.reservation == reservation.name)}
        for reservation in api.cloud.ledger.pools.reservations
    ]


def _refuse(api: Emulator, arguments: dict[str, Any]) -> None:
    how = arguments.pop("how")
    api.cloud.levers.refuse(arguments.pop("zone"), None if how is None else ZoneRefusal(how), **arguments)


def _quota(api: Emulator, arguments: dict[str, Any]) -> None:
    tier = QuotaTier(arguments.pop("tier", QuotaTier.ON_DEMAND))
    api.cloud.levers.set_quota(**arguments, tier=tier)


def _attribute(api: Emulator, arguments: dict[str, Any]) -> None:
    node, worker = arguments.pop("node"), arguments.pop("worker")
    api.cloud.levers.set_guest_attribute(node, worker, GuestAttribute(**arguments))


def _set_node(api: Emulator, arguments: dict[str, Any]) -> None:
    api.cloud.levers.set_node_state(state=NodeState(arguments.pop("state")), **arguments)


LEVERS: dict[tuple[str, str], Act] = {  # beside those of every such emulator
    ("GET", "/_/state"): lambda api, _: state(api),
    ("POST", "/_/capacity"): lambda api, arguments: api.cloud.levers.set_capacity(**arguments),
    ("POST", "/_/stockout"): lambda api, arguments: api.cloud.levers.stockout(**arguments),
    ("POST", "/_/refuse"): _refuse,
    ("POST", "/_/quota"): _quota,
    ("POST", "/_/reservation"): lambda api, arguments: api.cloud.levers.set_reservation(**arguments),
    ("POST", "/_/preempt"): lambda api, arguments: api.cloud.levers.preempt(**arguments),
    ("POST", "/_/fail"): lambda api, arguments: api.cloud.levers.fail_request(**arguments),
    ("POST", "/_/ready"): lambda api, arguments: api.cloud.levers.set_host_ready(**arguments),
    ("POST", "/_/attribute"): _attribute,
    ("POST", "/_/reboot"): lambda api, arguments: api.cloud.levers.reboot(**arguments),
    ("POST", "/_/network"): lambda api, arguments: api.cloud.levers.set_network(**arguments),
    ("POST", "/_/node"): _set_node,
    ("POST", "/_/maintenance"): lambda api, arguments: api.cloud.levers.set_maintenance(**arguments),
    ("GET", "/_/snapshot"): lambda api, _: api.cloud.ledger.snapshot(),
    ("POST", "/_/restore"): lambda api, arguments: api.cloud.ledger.restore(arguments),
}
