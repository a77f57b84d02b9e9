"""slipway:tpu:QueuedResource: a request for TPU slices, every field of the Cloud TPU API's v2.

Owns the request's inputs, what a change of each means, and create, read and delete. Create returns once the request
is accepted; whether chips ever come is SliceReady's business. Not run on real hardware.

What an update means: the API has no PATCH for a request and ignores its copy of labels, tags, metadata, disks and
description once nodes exist, so those are patched on the nodes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.names import STACK_LABEL
from infra.providers import tpu_api
from infra.providers.resource import Context, Outputs, Resource, ResourceError, Unknown, ignored, replaces, updates

METADATA_LIMIT = 256 * 1024  # bytes of one value, as on Compute Engine
POLL_S = 2.0
ACCEPT_TIMEOUT_S = 300.0

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
    zone: str = replaces("a request belongs to one zone")
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
    data_disks: list[dict[str, str]] = updates()
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
    fallback_zones: list[str] = ignored(default_factory=list)  # only SliceReady moves a request to them

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def path(self) -> str:
        return f"{self.parent}/queuedResources/{self.name}"

    @property
    def node_names(self) -> tuple[str, ...]:
        """The API numbers the nodes of a multislice request from 0."""
        ids = [self.name] if self.nodes == 1 else [f"{self.name}-{number}" for number in range(self.nodes)]
        return tuple(f"{self.parent}/nodes/{identifier}" for identifier in ids)


TIERS = ("on-demand", "spot", "reserved", "guaranteed")
_NETWORK_KEYS = {"network", "subnetwork", "enable_external_ips", "can_ip_forward", "queue_count"}
_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class QueuedResource(Resource[QueuedResourceInputs]):
    token: ClassVar[str] = "slipway:tpu:QueuedResource"
    inputs = QueuedResourceInputs
    timeout_s: ClassVar[float] = 1200.0

    def check(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        failures = super().check(values)
        if failures or any(isinstance(value, Unknown) for value in values.values()):
            return failures
        return problems(self.parse(values))

    def create(self, context: Context, new: QueuedResourceInputs) -> tuple[str, Outputs]:
        # New for every create: an id that was used for a request which is gone is refused, or answered with its ending.
        # What keeps a create after a killed one from doubling is the name.
        request_id = str(uuid.uuid4())
        try:
            tpu_api.create(new.parent, new.name, body(new), request_id)
        except tpu_api.ThereAlreadyError:
            _refuse_foreign(new)
        context.accept(new.path, {"state": "CREATING", "create_time": ""})
        waited = 0.0
        while (found := tpu_api.get(new.path)) is None:
            if waited > ACCEPT_TIMEOUT_S:
                raise ResourceError(f"{new.path} was accepted but does not appear; run `pulumi up` again")
            context.report(f"{new.name}: waiting for the request to appear")
            context.wait(POLL_S)
            waited += POLL_S
        return new.path, _outputs(found)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        found = tpu_api.get(identifier)
        return _outputs(found) if found else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: QueuedResourceInputs) -> Outputs:
        wanted = _node(new)
        # Only what differs: the client's documentation does not list data disks among what can be patched.
        patched = ("labels", "tags", "metadata", "data_disks", "description")
        fields = [name for name in patched if getattr(new, name) != outputs.get(name)]
        there = {str(node.name) for node in tpu_api.nodes(new.parent)}
        for name in new.node_names:
            if name in there:
                context.report(f"updating {name.rpartition('/')[2]}")
                tpu_api.update_node({"name": name} | {key: wanted[key] for key in fields}, fields)
        return {key: outputs.get(key, "") for key in ("state", "create_time")}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        remove(context, identifier)


def remove(context: Context, path: str) -> None:
    """Delete a request with its nodes, and wait until it is gone."""
    request_id = str(uuid.uuid4())
    tpu_api.delete(path, request_id)
    while (found := tpu_api.get(path)) is not None:
        context.report(f"{path.rpartition('/')[2]}: {_state(found)}")
        if _state(found) not in ("DELETING", "SUSPENDING"):
            tpu_api.delete(path, request_id)
        context.wait(POLL_S)


def body(new: QueuedResourceInputs) -> dict[str, Any]:
    """The request as the API's v2 QueuedResource, fields in the client's own names. Pure."""
    spec: dict[str, Any] = {"parent": new.parent, "node": _node(new)}
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
            new.reservation if "/" in new.reservation else f"{new.parent}/reservations/{new.reservation}"
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

    longest = new.node_names[-1].rpartition("/")[2] if new.nodes >= 1 else new.name
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


def _refuse_foreign(new: QueuedResourceInputs) -> None:
    """Go on with a request that a killed `up` has made, and stop at somebody else's."""
    found = tpu_api.get(new.path)
    if found is None:
        return
    label = stack_label(found)
    if label != new.labels[STACK_LABEL]:
        raise ResourceError(
            f"{new.path} is there already and not this stack's (label {STACK_LABEL}: {label or 'none'}); "
            f"delete it, or give the stack another `prefix`"
        )


def stack_label(found: Any) -> str:
    specs = list(found.tpu.node_spec)
    return str(specs[0].node.labels.get(STACK_LABEL, "")) if specs else ""


def _state(found: Any) -> str:
    return str(found.state.state.name)


def _outputs(found: Any) -> Outputs:
    made = found.create_time
    return {"state": _state(found), "create_time": made.isoformat() if made else ""}
