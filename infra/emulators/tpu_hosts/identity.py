"""Who an emulated host is to its platform: what the metadata server of a TPU VM says, of a node of the emulated cloud.

Owns these paths and attributes. Refuses to own what is done with them (fleet.py). Whoever asks holds the cloud's lock.
Attributes are those that training/hosts.py and JAX read, and others that were seen on TPU VMs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from infra.emulators.tpu_api.checks import Place, project_number
from infra.emulators.tpu_api.ledger import Ledger
from infra.emulators.tpu_api.levers import instance_name
from infra.emulators.tpu_api.records import Node


@dataclass(frozen=True)
class HostIdentity:
    """One worker of a node as it is now. `boots` counts its boots; `values` are by path, `attributes` by name."""

    node: str
    worker: int
    name: str
    boots: int
    values: Mapping[str, str]
    attributes: Mapping[str, str]
    email: str
    address: str
    connected: bool  # to the other hosts


def identity(ledger: Ledger, node: Node, worker: int) -> HostIdentity:
    return HostIdentity(
        node=node.name,
        worker=worker,
        name=instance_name(node, worker),
        boots=node.hosts[worker].boots,
        values=_values(node, worker),
        attributes={**node.message.metadata, **_of_platform(ledger, node, worker)},
        email=node.message.service_account.email,
        address=node.message.network_endpoints[worker].ip_address,
        connected=node.hosts[worker].connected,
    )


def _values(node: Node, worker: int) -> dict[str, str]:
    name, place = instance_name(node, worker), Place.of(node.name)
    number = project_number(place.project)
    return {
        "project/project-id": place.project,
        "project/numeric-project-id": number,
        "instance/name": name,
        "instance/hostname": f"{name}.{place.zone}.c.{place.project}.internal",
        "instance/id": str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16)),
        "instance/zone": f"projects/{number}/zones/{place.zone}",
        "instance/machine-type": f"projects/{number}/machineTypes/emulated",
        "instance/network-interfaces/0/ip": node.message.network_endpoints[worker].ip_address,
        "instance/maintenance-event": _maintenance_event(node),
        "instance/scheduling/preemptible": str(node.message.scheduling_config.spot).upper(),
    }


def _maintenance_event(node: Node) -> str:
    """Compute Engine says it a minute before; here it is said as long as the maintenance goes on."""
    ongoing = node.maintenance.get("maintenanceStatus") == "ONGOING"
    return "TERMINATE_ON_HOST_MAINTENANCE" if ongoing else "NONE"


def _of_platform(ledger: Ledger, node: Node, worker: int) -> dict[str, str]:
    short_name = node.name.rpartition("/")[2]
    tpu_env = {
        "ACCELERATOR_TYPE": node.message.accelerator_type,
        "CONSUMER_PROJECT_ID": Place.of(node.name).project,
        "NODE_ID": short_name,
        "WORKER_ID": str(worker),
        "ZONE": Place.of(node.name).zone,
    } | _slices(ledger, node)
    addresses = [endpoint.ip_address for endpoint in node.message.network_endpoints]
    return {
        "accelerator-type": node.message.accelerator_type,
        "agent-worker-number": str(worker),
        "instance-id": short_name,
        "worker-network-endpoints": ",".join(f"unknown:unknown:{address}" for address in addresses),
        "tpu-env": "".join(f"{key}: '{value}'\n" for key, value in tpu_env.items()),
    }


def _slices(ledger: Ledger, node: Node) -> dict[str, str]:
    """Of a node that is one of several slices."""
    names = ledger.requests[node.request].node_names if node.request in ledger.requests else [node.name]
    if len(names) == 1 or names[0] not in ledger.nodes:
        return {}
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": ledger.nodes[names[0]].message.network_endpoints[0].ip_address,
        "MEGASCALE_NUM_SLICES": str(len(names)),
        "MEGASCALE_SLICE_ID": str(names.index(node.name)),
    }
