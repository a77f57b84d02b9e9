"""What the simulated cloud keeps: requests, nodes, hosts, operations, and how it is set up. All of it becomes JSON.

Owns the states by name. Refuses to own when they change: transitions.py, cloud.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from infra.emulators.tpu_api import messages
from infra.emulators.tpu_api.errors import RpcStatus
from infra.tiers import Tier


class RequestState(StrEnum):
    """States of a queued resource. ACCEPTED is the older word for WAITING_FOR_RESOURCES."""

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"
    PROVISIONING = "PROVISIONING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    DELETING = "DELETING"


class NodeState(StrEnum):
    """REPAIRING and UNKNOWN were seen with the request still ACTIVE."""

    CREATING = "CREATING"
    READY = "READY"
    RESTARTING = "RESTARTING"
    REPAIRING = "REPAIRING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"
    TERMINATED = "TERMINATED"
    DELETING = "DELETING"
    UNKNOWN = "UNKNOWN"  # after a repair that failed


class Initiator(StrEnum):
    """Who began SUSPENDING."""

    NONE = "STATE_INITIATOR_UNSPECIFIED"
    USER = "USER"
    SERVICE = "SERVICE"


class OperationEnds(StrEnum):
    """When the operation of a create is done. No source read says which."""

    ACCEPTED = "accepted"  # the request is in the queue
    ACTIVE = "active"  # or FAILED


class QuotaRefusal(StrEnum):
    """How a request beyond the quota ends. No source read says which for queued resources; nodes get the 429."""

    AT_CALL = "at the call"  # 429
    IN_OPERATION = "in the operation"  # which ends in an error, and nothing stays
    FAILED_REQUEST = "as a failed request"  # which stays until it is deleted


class Hidden(StrEnum):
    """Which calls do not find a request that is too young. Only the first was seen; each has those before it too."""

    GET = "get"
    LIST = "list"
    DELETE = "delete"

    def includes(self, call: Hidden) -> bool:
        order = list(Hidden)
        return order.index(call) <= order.index(self)


@dataclass(frozen=True)
class Timings:
    """Seconds of the cloud's clock that things take. None of them was measured on the real service."""

    admit_s: float = 2  # CREATING
    select_s: float = 5  # WAITING_FOR_RESOURCES, with room
    provision_s: float = 60  # PROVISIONING
    boot_s: float | None = 90  # READY until the first host reports; None: hosts report only when told to
    host_stagger_s: float = 1  # and each host that much later than the one before
    suspend_s: float = 30  # SUSPENDING
    delete_s: float = 20  # DELETING of a node, or of a request with nodes
    update_s: float = 2  # a patch of a node, a stop or start


@dataclass(frozen=True)
class Behaviour:
    """What the documentation leaves open, and what the real service was seen to do though no documentation says so.

    A client should live with every combination. Seen, and so the default: project_numbers, updates_conflict,
    guest_agent. Seen, but not always: appears_after_s.
    """

    create_ends: OperationEnds = OperationEnds.ACCEPTED
    quota_refusal: QuotaRefusal = QuotaRefusal.AT_CALL
    says_accepted: bool = False  # ACCEPTED instead of WAITING_FOR_RESOURCES, as before its replacement
    preempted_nodes_stay: bool = False  # listed as PREEMPTED until their request is deleted
    deletes_join: bool = False  # a second delete answers with the operation of the first, instead of 409
    silent_hosts_are_404: bool = False  # as on Compute Engine: asking what nobody has published is NOT_FOUND
    project_numbers: bool = True  # in a request's node_spec.parent and in a node's queued_resource
    appears_after_s: float = 0  # a request that was just made is NOT_FOUND that long; its id is taken at once
    hidden_from: Hidden = Hidden.GET
    updates_conflict: bool = True  # an update of a node while another runs is ABORTED, 409
    extras_in_operations: bool = False  # also in responses of operations: Google's client 1.28 then fails to read them
    guest_agent: bool = True  # hosts publish their host keys and names, beside what is written for a job


@dataclass(frozen=True)
class GuestAttribute:
    namespace: str
    key: str
    value: str


# What a host publishes when it is ready, as infra/vm_hosts/report.sh writes it; with its own bundle, if it has one.
NO_BUNDLE = "emulated"
HOST_READY = GuestAttribute("slipway", "status", f'{{"bundle": "{NO_BUNDLE}", "status": {{"phase": "training"}}}}')


@dataclass
class NodeHost:
    """A worker of a node. `ready_at_s` is when it reports by itself, None never; `bundle` is that of its last boot.

    `boots` counts those: whoever runs a host for it starts one anew where the number is another.
    """

    ready_at_s: float | None = None
    attributes: list[GuestAttribute] = field(default_factory=list[GuestAttribute])
    bundle: str = ""
    boots: int = 0
    connected: bool = True

    def boot(self, bundle: str) -> None:
        """It forgets what it was, and runs this bundle until its next boot."""
        self.attributes, self.ready_at_s, self.bundle = [], None, bundle
        self.boots += 1

    def says(self, ready: GuestAttribute) -> GuestAttribute:
        """What it publishes when it is ready."""
        return replace(ready, value=ready.value.replace(NO_BUNDLE, self.bundle or NO_BUNDLE))


@dataclass
class Node:
    """`message` holds all that does not follow from the other fields."""

    name: str
    accelerator: str  # row of the hardware table
    tier: Tier
    message: Annotated[Any, BeforeValidator(partial(messages.parse, "Node")), PlainSerializer(messages.plain)]
    create_s: float
    state: NodeState = NodeState.CREATING
    due_s: float | None = None  # when the state ends by itself
    health: str = "HEALTH_UNSPECIFIED"
    health_description: str = ""
    request: str = ""  # name of its queued resource
    reservation: str = ""
    released: bool = False  # its chips were gone before it was deleted
    hosts: list[NodeHost] = field(default_factory=list[NodeHost])
    maintenance: dict[str, Any] = field(default_factory=dict[str, Any])  # upcomingMaintenance as JSON

    @property
    def holds_capacity(self) -> bool:
        return not self.released and self.state not in (NodeState.PREEMPTED, NodeState.STOPPED, NodeState.TERMINATED)


@dataclass
class Extras:
    """What a queued resource of v2alpha1 has beyond one of v2; see extras.py."""

    request: dict[str, Any] = field(default_factory=dict[str, Any])
    guaranteed: dict[str, Any] = field(default_factory=dict[str, Any])
    slices: dict[str, Any] = field(default_factory=dict[str, Any])  # of multiNodeParams
    node: dict[str, Any] = field(default_factory=dict[str, Any])
    scheduling: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Request:
    """A queued resource. `message` is as it was sent: its copy of the node never changes."""

    name: str
    accelerator: str
    tier: Tier
    node_names: list[str]
    message: Annotated[Any, BeforeValidator(partial(messages.parse, "QueuedResource")), PlainSerializer(messages.plain)]
    create_s: float
    number: int  # in the order of creation
    state: RequestState = RequestState.CREATING
    since_s: float = 0
    due_s: float | None = None
    not_before_s: float = 0
    expires_s: float | None = None
    failure: RpcStatus | None = None
    initiator: Initiator = Initiator.NONE
    reservation: str = ""
    tried: int = -1  # the cloud's revision at which there was no room
    create_operation: str = ""
    delete_operation: str = ""
    runs_for_s: float | None = None  # of flex-start: ACTIVE for that long
    extras: Extras = field(default_factory=Extras)


@dataclass
class Operation:
    name: str
    verb: str
    target: str
    create_s: float
    completed_s: float | None = None
    hold_until_s: float = 0  # a slow operation says so later
    failure: RpcStatus | None = None
    response: dict[str, Any] | None = None  # with its "@type"
    cancel_requested: bool = False

    def is_done(self, now_s: float) -> bool:
        return self.completed_s is not None and now_s >= max(self.completed_s, self.hold_until_s)


@dataclass(frozen=True)
class Event:
    time_s: float
    target: str
    text: str


@dataclass(frozen=True)
class SentRequest:
    """A request id, and the call and operation it was first sent with."""

    rpc: str
    body: str
    operation: str
    time_s: float
