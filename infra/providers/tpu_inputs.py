"""What a request for TPU slices may say, and how it is said to the Cloud TPU API. Pure.

Owns the inputs of slipway:tpu:QueuedResource, what a change of each means, the body of the request. Refuses to own any
call.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from infra.names import STACK_LABEL
from infra.providers.resource import replaces, updates
from infra.providers.tpu_cleanup import Found

METADATA_LIMIT = 256 * 1024  # bytes of one value, as on Compute Engine
MADE_LABEL = "slipway-made"  # of a request: which one it is, and of what
PATCHED = ("labels", "tags", "metadata", "description")  # what the API changes on nodes in place

_FIXED = "a request cannot be changed once it is made"
_SIZE = "chips are given to a request as a whole"
_IMAGE = "a node's image is chosen when it is made"
_WIRING = "a node's network is chosen when it is made"
_TERMS = "the queue serves a request on the terms it was made with"


@dataclass(frozen=True)
class QueuedResourceInputs:
    """Durations in seconds (0: none), times as RFC 3339 (empty: none). `nodes` is the number of slices.

    `networks` are one or more of network, subnetwork, enable_external_ips, can_ip_forward, queue_count;
    `data_disks` of source_disk and mode (read-write, read-only).
    """

    project: str = replaces("a request belongs to one project")
    zones: list[str] = replaces("a request belongs to one zone")  # in the order to try them
    name: str = replaces(_FIXED)
    nodes: int = replaces(_SIZE)
    accelerator_type: str = replaces(_SIZE)
    runtime_version: str = replaces(_IMAGE)
    tier: str = replaces(_TERMS)
    networks: list[dict[str, Any]] = replaces(_WIRING)
    service_account: str = replaces("a node's service account is chosen when it is made")
    scopes: list[str] = replaces("a node's service account is chosen when it is made")
    labels: dict[str, str] = updates()
    tags: list[str] = updates()
    metadata: dict[str, str] = updates()
    data_disks: list[dict[str, str]] = replaces("the API attaches disks when it makes a node")
    description: str = updates(default="")
    reservation: str = replaces(_TERMS, default="")
    min_duration_s: int = replaces(_TERMS, default=0)
    valid_until_s: int = replaces(_TERMS, default=0)
    valid_until: str = replaces(_TERMS, default="")
    valid_after_s: int = replaces(_TERMS, default=0)
    valid_after: str = replaces(_TERMS, default="")
    topology: str = replaces(_SIZE, default="")  # with accelerator_kind instead of accelerator_type
    accelerator_kind: str = replaces(_SIZE, default="")  # V5LITE_POD, V5P, V6E
    cidr_block: str = replaces(_WIRING, default="")
    secure_boot: bool = replaces(_IMAGE, default=False)

    @property
    def identifier(self) -> str:
        """Without its zone, which may change."""
        return f"{self.project}/{self.name}"

    @property
    def stack(self) -> str:
        """The label by which what is ours is told from what is not."""
        return self.labels[STACK_LABEL]

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The API numbers the nodes of a multislice request from 0."""
        return (self.name,) if self.nodes == 1 else tuple(f"{self.name}-{number}" for number in range(self.nodes))

    def parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"

    def path(self, zone: str) -> str:
        return f"{self.parent(zone)}/queuedResources/{self.name}"

    def owns(self, found: Found) -> bool:
        """Whether it is this request or a node of it, by label and by name."""
        return found.stack == self.stack and (found.id in (self.name, *self.node_ids))

    def in_order(self, first: str) -> tuple[str, ...]:
        """The zones from `first` on, round about; a zone that is no longer listed is no start."""
        start = self.zones.index(first) if first in self.zones else 0
        return (*self.zones[start:], *self.zones[:start])

    def places(self, last: str) -> tuple[str, ...]:
        """Every zone where it may lie: `last`, where it was seen, first, also where it is no longer listed."""
        return tuple(dict.fromkeys((*([last] if last else []), *self.in_order(last))))


TIERS = ("on-demand", "spot", "reserved", "guaranteed")
_NETWORK_KEYS = {"network", "subnetwork", "enable_external_ips", "can_ip_forward", "queue_count"}
_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def body(new: QueuedResourceInputs, zone: str) -> dict[str, Any]:
    """The request as the API's v2 QueuedResource, fields in the client's own names. Pure."""
    spec: dict[str, Any] = {"parent": new.parent(zone), "node": _node(new)}
    if new.nodes == 1:
        spec["node_id"] = new.name
    else:
        spec["multislice_params"] = {"node_count": new.nodes, "node_id_prefix": new.name}
    request: dict[str, Any] = {"tpu": {"node_spec": [spec]}}
    if new.tier == "spot":
        request["spot"] = {}
    if new.tier in ("guaranteed", "reserved"):
        request["guaranteed"] = {"min_duration": {"seconds": new.min_duration_s}} if new.min_duration_s else {}
    if new.reservation:
        request["reservation_name"] = (
            new.reservation if "/" in new.reservation else f"{new.parent(zone)}/reservations/{new.reservation}"
        )
    policy: dict[str, Any] = {}
    for word in ("until", "after"):
        if length := getattr(new, f"valid_{word}_s"):
            policy[f"valid_{word}_duration"] = {"seconds": length}
        if moment := getattr(new, f"valid_{word}"):
            policy[f"valid_{word}_time"] = moment
    return request | ({"queueing_policy": policy} if policy else {})


def _node(new: QueuedResourceInputs) -> dict[str, Any]:
    node: dict[str, Any] = {
        "runtime_version": new.runtime_version,
        "service_account": {"email": new.service_account, "scope": new.scopes},
        "labels": new.labels,
        "tags": new.tags,
        "metadata": new.metadata,
        "description": new.description,
        "data_disks": [
            {"source_disk": disk["source_disk"], "mode": disk["mode"].upper().replace("-", "_")}
            for disk in new.data_disks
        ],
    }
    if new.accelerator_kind:
        node["accelerator_config"] = {"type_": new.accelerator_kind, "topology": new.topology}
    else:
        node["accelerator_type"] = new.accelerator_type
    if len(new.networks) == 1:
        node["network_config"] = new.networks[0]
    else:
        node["network_configs"] = new.networks
    if new.tier == "reserved":
        node["scheduling_config"] = {"reserved": True}  # v2 has no `guaranteed.reserved`; not run against the API
    if new.cidr_block:
        node["cidr_block"] = new.cidr_block
    if new.secure_boot:
        node["shielded_instance_config"] = {"enable_secure_boot": True}
    return node


def problems(new: QueuedResourceInputs) -> list[tuple[str, str]]:
    """Pairs of key and one sentence for what the API would refuse minutes later. Pure."""
    found: list[tuple[str, str]] = []

    def refuse(key: str, sentence: str) -> None:
        found.append((key, sentence))

    longest = new.node_ids[-1] if new.nodes >= 1 else new.name
    if not new.zones:
        refuse("zones", "zones is empty; give at least one, in the order to try them")
    if new.nodes < 1:
        refuse("nodes", f"nodes is {new.nodes}; give the number of slices, from 1")
    if not _ID.fullmatch(longest):
        refuse("name", f"'{longest}' is not a node's id; give at most 63 of a-z, 0-9 and '-', from a letter")
    if new.tier not in TIERS:
        refuse("tier", f"tier is '{new.tier}'; allowed: {', '.join(TIERS)}")
    if new.reservation and new.tier not in ("reserved", "guaranteed"):
        refuse("reservation", f"a reservation goes with tier reserved or guaranteed, not with {new.tier}")
    if new.min_duration_s and new.tier != "guaranteed":
        refuse("min_duration_s", f"min_duration goes with tier guaranteed, not with {new.tier}")
    for word in ("until", "after"):
        if getattr(new, f"valid_{word}_s") and getattr(new, f"valid_{word}"):
            refuse(f"valid_{word}", f"valid_{word} is a length of time or a time, not both")
    if bool(new.accelerator_type) == bool(new.accelerator_kind) or bool(new.accelerator_kind) != bool(new.topology):
        refuse("accelerator_type", "give accelerator_type, or accelerator_kind with topology")
    if not new.networks:
        refuse("networks", "networks is empty, which means the project's default network; name one")
    for network in new.networks:
        if unknown := set(network) - _NETWORK_KEYS:
            allowed = ", ".join(sorted(_NETWORK_KEYS))
            refuse("networks", f"a network has {', '.join(sorted(unknown))}; allowed: {allowed}")
    for disk in new.data_disks:
        if set(disk) != {"source_disk", "mode"} or disk["mode"] not in ("read-write", "read-only"):
            refuse("data_disks", f"a data disk has source_disk and mode (read-write or read-only), not {disk}")
    for key, text in new.metadata.items():
        if len(text.encode()) > METADATA_LIMIT:
            refuse("metadata", f"metadata '{key}' has {len(text.encode()):,} bytes; the limit is {METADATA_LIMIT:,}")
    if STACK_LABEL not in new.labels:
        refuse("labels", f"labels lack '{STACK_LABEL}', by which a lost request is found again")
    return found


def fingerprint(new: QueuedResourceInputs) -> str:
    """Of what only a new request can change, and of the metadata, which nodes that are there can have patched."""
    fixed = {key: value for key, value in vars(new).items() if key not in (*PATCHED, "zones")}
    return f"{_digest(fixed)}-{_digest(new.metadata)}"


def same_terms(one: str, other: str) -> bool:
    """Whether two fingerprints differ at most in what can be patched."""
    return one.partition("-")[0] == other.partition("-")[0]


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
