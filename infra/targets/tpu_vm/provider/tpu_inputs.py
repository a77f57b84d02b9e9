"""The contracts of tpu-vm resources: token, inputs, what a change of each means. And a request as the API's JSON. Pure.

Program and provider share them, so the imports are light. Refuses to own any call (tpu_api.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from infra.artifacts.wanted import wanted_key
from infra.names import STACK_LABEL
from infra.providers.resource import ignored, replaces, updates
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim
from infra.tiers import Tier
from infra.vm_hosts.startup_script import METADATA_LIMIT, asking, bundle_of, without_bundle

STARTUP_SCRIPT = "startup-script"  # the key of a node's metadata
PATCHED = ("labels", "tags", "metadata", "description")  # what the API changes on nodes in place

_FIXED = "a request cannot be changed once it is made"
_SIZE = "chips are given to a request as a whole"
_IMAGE = "a node's image is chosen when it is made"
_WIRING = "a node's network is chosen when it is made"
_WAITS = (
    "of what hosts start with only their bundle can be changed while a request waits, so its place in the queue is lost"
)
_TERMS = "the queue serves a request on the terms it was made with"


@dataclass(frozen=True)
class TpuStackGuardInputs:
    token: ClassVar[str] = "slipway:tpu:StackGuard"
    project: str = replaces("what a stack owns lies in one project")
    label: str = replaces("it is what the stack's things are found by")
    zones: list[str] = updates()  # searched at the end, those of before an update too
    owner: str = ignored(default="")  # as the stack file writes it
    wanted_in: str = updates(default="")  # of its request; cleared at the end, and those of before an update too


@dataclass(frozen=True)
class SliceReadyInputs:
    token: ClassVar[str] = "slipway:tpu:SliceReady"
    request: dict[str, Any] = ignored()  # the inputs of QueuedResource: where it may be, what the next zone is asked
    made: str = replaces("the request was made anew")
    hosts: int = replaces("another request is another wait")  # of all nodes
    wait: bool = ignored()
    wait_deadline_s: int = ignored()


@dataclass(frozen=True)
class QueuedResourceInputs:
    """Durations in seconds (0: none), times as RFC 3339 (empty: none). `nodes` is the number of slices.

    `networks` are one or more of network, subnetwork, enable_external_ips, can_ip_forward, queue_count;
    `data_disks` of source_disk and mode (read-write, read-only).
    """

    token: ClassVar[str] = "slipway:tpu:QueuedResource"
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
    metadata: dict[str, str] = updates(_WAITS)
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
    max_run_duration_s: int = replaces(_TERMS, default=0)  # of flex-start
    identity: str = ignored(default="")  # of the state, as its guard has it; states of 0.1.0 have none
    take_over: str = ignored(default="")  # another state's request, which is to be this one's: tpu_ownership.holding
    wanted_in: str = ignored(default="")  # the store where hosts learn their bundle; empty: metadata alone says it

    @property
    def identifier(self) -> str:
        """Without its zone, which may change."""
        return f"{self.project}/{self.name}"

    @property
    def stack(self) -> str:
        """The label by which what is ours is told from what is not."""
        return self.labels[STACK_LABEL]

    def claim(self, made: str = "") -> StackClaim:
        """What this state may call its own; `made` is the request that it knows."""
        return StackClaim(self.stack, self.identity or made, made, self.take_over)

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The API numbers the nodes of a multislice request from 0."""
        return (self.name,) if self.nodes == 1 else tuple(f"{self.name}-{number}" for number in range(self.nodes))

    @property
    def bundle(self) -> str:
        """What its hosts shall run."""
        return bundle_of(self.metadata.get(STARTUP_SCRIPT, ""))

    @property
    def wanted_key(self) -> str:
        """The object of `wanted_in` that says so; empty where metadata alone does. A state of 0.1.0 has no identity."""
        return wanted_key(self.stack, self.identity) if self.wanted_in and self.identity and self.bundle else ""

    @property
    def metadata_asking(self) -> dict[str, str]:
        """The metadata of a request, which nothing can change later: its hosts ask for their bundle when they boot."""
        if not self.wanted_key:
            return self.metadata
        return self.metadata | {STARTUP_SCRIPT: asking(self.metadata[STARTUP_SCRIPT], self.wanted_key)}

    @property
    def fixed_metadata(self) -> dict[str, str]:
        """What of the metadata only a new request can change, where it has no nodes yet."""
        if not self.wanted_key:
            return self.metadata
        return self.metadata | {STARTUP_SCRIPT: without_bundle(self.metadata[STARTUP_SCRIPT])}

    def parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"

    def path(self, zone: str) -> str:
        return f"{self.parent(zone)}/queuedResources/{self.name}"

    def in_order(self, first: str) -> tuple[str, ...]:
        """The zones from `first` on, round about; a zone that is no longer listed is no start."""
        start = self.zones.index(first) if first in self.zones else 0
        return (*self.zones[start:], *self.zones[:start])

    def places(self, last: str) -> tuple[str, ...]:
        """Every zone where it may lie: `last`, where it was seen, first, also where it is no longer listed."""
        return tuple(dict.fromkeys((*([last] if last else []), *self.in_order(last))))


_NETWORK_KEYS = {"network", "subnetwork", "enable_external_ips", "can_ip_forward", "queue_count"}
_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
ANY_RESERVATION = "-"  # what gcloud sends for `--reserved` without a name


def body(new: QueuedResourceInputs, zone: str, now: datetime | None = None) -> dict[str, Any]:
    """The request as the API's v2 QueuedResource, fields in the client's own names. Pure.

    `now` is what lengths of time count from where a beginning and an end are both given.
    """
    spec: dict[str, Any] = {"parent": new.parent(zone), "node": _node(new)}
    if new.nodes == 1:
        spec["node_id"] = new.name
    else:
        spec["multislice_params"] = {"node_count": new.nodes, "node_id_prefix": new.name}
    request: dict[str, Any] = {"tpu": {"node_spec": [spec]}}
    if new.tier == Tier.SPOT:
        request["spot"] = {}
    if new.tier == Tier.GUARANTEED:
        request["guaranteed"] = {"min_duration": {"seconds": new.min_duration_s}} if new.min_duration_s else {}
    if new.reservation or new.tier == Tier.RESERVED:
        name = new.reservation or ANY_RESERVATION
        request["reservation_name"] = name if "/" in name else f"{new.parent(zone)}/reservations/{name}"
    policy = _queueing_policy(new, now or datetime.now(UTC))
    return request | ({"queueing_policy": policy} if policy else {})


def flex_start(new: QueuedResourceInputs, request: dict[str, Any]) -> dict[str, Any]:
    """A request as the v2alpha1 JSON of flex-start, which v2 has no fields for. Pure.

    request: the v2 QueuedResource as JSON. Field names of gcloud's own v2alpha1 client.
    """
    (spec,) = request["tpu"]["nodeSpec"]
    if slices := spec.pop("multisliceParams", None):
        spec["multiNodeParams"] = slices
    limit = {"maxRunDuration": f"{new.max_run_duration_s}s"}
    return request | {"provisioningModel": "FLEX_START", "runDuration": limit}


def _queueing_policy(new: QueuedResourceInputs, now: datetime) -> dict[str, Any]:
    """The API takes one constraint: of a beginning and an end together it takes the interval between them."""
    policy: dict[str, Any] = {}
    for word in ("until", "after"):
        if length := getattr(new, f"valid_{word}_s"):
            policy[f"valid_{word}_duration"] = {"seconds": length}
        if moment := getattr(new, f"valid_{word}"):
            policy[f"valid_{word}_time"] = moment
    if len(policy) < 2:
        return policy
    start, end = (_moment(new, word, now) for word in ("after", "until"))
    return {"valid_interval": {"start_time": {"seconds": start}, "end_time": {"seconds": end}}}


def _moment(new: QueuedResourceInputs, word: str, now: datetime) -> int:
    """Seconds since the epoch."""
    time = str(getattr(new, f"valid_{word}"))
    moment = datetime.fromisoformat(time) if time else now + timedelta(seconds=getattr(new, f"valid_{word}_s"))
    return int(moment.timestamp())


def _node(new: QueuedResourceInputs) -> dict[str, Any]:
    node: dict[str, Any] = {
        "runtime_version": new.runtime_version,
        "service_account": {"email": new.service_account, "scope": new.scopes},
        "labels": new.labels,
        "tags": new.tags,
        "metadata": new.metadata_asking,
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
    if new.cidr_block:
        node["cidr_block"] = new.cidr_block
    if new.secure_boot:
        node["shielded_instance_config"] = {"enable_secure_boot": True}
    return node


def problems(new: QueuedResourceInputs) -> list[tuple[str, str]]:
    """Pairs of key and one sentence for what the API would refuse minutes later. Pure."""
    refusals: list[tuple[str, str]] = []

    def refuse(key: str, sentence: str) -> None:
        refusals.append((key, sentence))

    longest = new.node_ids[-1] if new.nodes >= 1 else new.name
    if not new.zones:
        refuse("zones", "zones is empty; give at least one, in the order to try them")
    if new.nodes < 1:
        refuse("nodes", f"nodes is {new.nodes}; give the number of slices, from 1")
    if not _ID.fullmatch(longest):
        refuse("name", f"'{longest}' is not a node's id; give at most 63 of a-z, 0-9 and '-', from a letter")
    if new.tier not in tuple(Tier):
        refuse("tier", f"tier is '{new.tier}'; allowed: {', '.join(Tier)}")
    if new.reservation and new.tier not in (Tier.RESERVED, Tier.GUARANTEED):
        refuse("reservation", f"a reservation goes with tier reserved or guaranteed, not with {new.tier}")
    if (new.tier == Tier.FLEX_START) != bool(new.max_run_duration_s):
        refuse("max_run_duration_s", "max_run_duration goes with tier flex-start, and flex-start with it")
    if new.min_duration_s and new.tier != Tier.GUARANTEED:
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
    return refusals


# Inputs that came after 0.1.0: they are part of a fingerprint only where they are not as they were then, so that an
# upgrade of Slipway finds what an older one has asked for.
_LATER = ("max_run_duration_s",)
_WHOSE = ("identity", "take_over", "wanted_in")  # no terms, and no metadata


def fingerprint(new: QueuedResourceInputs) -> str:
    """Of what only a new request can change, and of the metadata, which nodes that are there can have patched.

    Of a request whose hosts ask for their bundle it is the same with any.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(new)}
    fixed = {
        key: value
        for key, value in vars(new).items()
        if key not in (*PATCHED, *_WHOSE, "zones") and not (key in _LATER and value == defaults[key])
    }
    return f"{_digest(fixed)}-{_digest(new.fixed_metadata)}"


def same_terms(fingerprint: str, other: str) -> bool:
    """Whether two fingerprints differ at most in what can be patched."""
    return fingerprint.partition("-")[0] == other.partition("-")[0]


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
