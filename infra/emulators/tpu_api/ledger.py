"""What the cloud keeps: its clock's time, requests, nodes, operations, events, and all of it as one snapshot.

Owns the records and the sums over them (who holds which capacity and quota), operations and request ids. Refuses to
own when anything changes: transitions.py, cloud.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    WrapSerializer,
)

from infra.emulators.tpu_api import errors, messages, views
from infra.emulators.tpu_api.checks import Place, project_number
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.pools import Claim, Pools, quota_name
from infra.emulators.tpu_api.records import (
    HOST_READY,
    Behaviour,
    Event,
    GuestAttribute,
    Node,
    Operation,
    Request,
    SentRequest,
    Timings,
)
from infra.hardware import find

_REQUEST_ID_KEPT_S = 3600  # our choice: no source says for how long a request id is remembered
_MAX_EVENTS = 1000


def _by_name(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {record["name"]: record for record in records}


def _without_names(records: dict[str, Any], plain: SerializerFunctionWrapHandler) -> list[Any]:
    return list(plain(records).values())


type ByName[T] = Annotated[dict[str, T], BeforeValidator(_by_name), WrapSerializer(_without_names)]


@dataclass
class Ledger:
    """Its fields are what a snapshot has; one of an older emulator may lack those that have a default."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    timings: Timings
    behaviour: Behaviour
    now_s: float  # seconds since 1970
    number: int = 0  # of the last name that was made up
    revision: int = 0  # counts what has happened
    host_ready: GuestAttribute = HOST_READY
    hosts_boot: bool = False  # those of emulated accelerators are processes (tpu_hosts/), and say of themselves
    hosts_on_loopback: bool = False  # where they cannot have networks of their own
    projects: list[str] = field(default_factory=list[str])  # ids, as far as anybody named one
    pools: Pools = field(default_factory=Pools)
    requests: ByName[Request] = field(default_factory=dict[str, Request])
    nodes: ByName[Node] = field(default_factory=dict[str, Node])
    operations: ByName[Operation] = field(default_factory=dict[str, Operation])
    sent: dict[str, SentRequest] = field(default_factory=dict[str, SentRequest])
    events: list[Event] = field(default_factory=list[Event])

    # --- operations ---

    def new_operation(self, verb: str, target: str) -> Operation:
        name = f"{Place.of(target).name}/operations/operation-{self.next_number()}"
        self.operations[name] = Operation(name, verb, target, self.now_s)
        return self.operations[name]

    def operation(self, name: str) -> Operation:
        if name not in self.operations:
            raise errors.not_found(name)
        return self.operations[name]

    def complete(self, operation: Operation, failure: RpcStatus | None = None, after_s: float = 0) -> Operation:
        """Ends an operation now or later, unless it was made to end in an error before."""
        if operation.completed_s is None:
            operation.completed_s, operation.failure = self.now_s + after_s, failure
            operation.response = None if failure else self._response(operation)
        return operation

    def end_in_error(self, operation: Operation, failure: RpcStatus) -> None:
        """The operation reports this failure, whatever it has done or will do."""
        operation.failure, operation.response = failure, None
        operation.completed_s = operation.completed_s if operation.completed_s is not None else self.now_s

    def remembered(self, rpc: str, request_id: str, body: str) -> Operation | None:
        """The operation of an earlier call with this request id. Raises ApiError if it asked for something else."""
        self.sent = {key: sent for key, sent in self.sent.items() if sent.time_s + _REQUEST_ID_KEPT_S >= self.now_s}
        sent = self.sent.get(request_id) if request_id else None
        if sent is None:
            return None
        if (sent.rpc, sent.body) != (rpc, body):
            raise ApiError(
                Code.INVALID_ARGUMENT, f"Request id {request_id} was used for another request.", "REQUEST_ID"
            )
        return self.operations.get(sent.operation)

    def remember(self, rpc: str, request_id: str, body: str, operation: Operation) -> None:
        if request_id:
            self.sent[request_id] = SentRequest(rpc, body, operation.name, self.now_s)

    def _response(self, operation: Operation) -> dict[str, Any]:
        message = messages.new("google.protobuf.Empty")
        if operation.target in self.requests:
            message = self.request_view(self.requests[operation.target])
        elif operation.target in self.nodes:
            message = self.node_view(self.nodes[operation.target])
        return {"@type": f"type.googleapis.com/{message.DESCRIPTOR.full_name}", **messages.plain(message)}

    # --- what is shown ---

    def request_view(self, request: Request) -> Any:
        return views.request(request, self.behaviour)

    def node_view(self, node: Node) -> Any:
        return views.node(node, self.behaviour)

    # --- names ---

    def by_id(self, name: str) -> str:
        """A name with its project's id in place of the number, if anybody has named the project by its id."""
        kind, _, below = name.partition("/")
        project, slash, rest = below.partition("/")
        if kind != "projects":
            return name
        if not project.isdecimal() and project not in self.projects:
            self.projects.append(project)
        ids = {project_number(known): known for known in self.projects}
        return f"projects/{ids.get(project, project)}{slash}{rest}"

    def next_number(self) -> int:
        self.number += 1
        return self.number

    # --- accounts ---

    def quota_claims(self, but: Request | None = None) -> list[Claim]:
        """What counts against quota: every request until it is deleted, in any state, and nodes outside the queue."""
        queued = [claim_of(request) for request in self.requests.values() if request is not but]
        return queued + [claim_of(node) for node in self.nodes.values() if not node.request]

    def capacity_claims(self) -> list[Claim]:
        """Chips that nodes hold."""
        return [claim_of(node) for node in self.nodes.values() if node.holds_capacity]

    def over_quota(self, claim: Claim, but: Request | None = None) -> ApiError | None:
        limit = self.pools.beyond_quota(claim, self.quota_claims(but))
        if limit is None:
            return None
        where = f"{'region' if limit.place == claim.region else 'zone'} {limit.place}"
        return errors.over_quota(project_number(claim.project), quota_name(limit, claim), limit.units, where)

    def boots(self, accelerator: str) -> bool:
        """Whether hosts with it are processes of this machine; others are pretended."""
        return self.hosts_boot and find(accelerator).emulated

    def nodes_of(self, request: Request) -> list[Node]:
        return [node for node in self.nodes.values() if node.request == request.name]

    # --- keeping ---

    def snapshot(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return _KEPT.dump_python(self, mode="json", warnings=False)  # else it warns of whole seconds, which are ints

    def restore(self, values: dict[str, Any]) -> None:
        """Back to a snapshot, also one of another Cloud. Raises ValueError for what is none."""
        try:
            vars(self).update(vars(_KEPT.validate_python(values)))
        except ValidationError as error:
            places = [".".join(map(str, wrong["loc"])) for wrong in error.errors()]
            raise ValueError(f"missing or wrong: {', '.join(places)}") from None

    def log(self, target: str, text: str) -> None:
        self.revision += 1
        self.events.append(Event(self.now_s, target, text))
        del self.events[:-_MAX_EVENTS]


_KEPT = TypeAdapter(Ledger)


def claim_of(taker: Request | Node) -> Claim:
    place, nodes = Place.of(taker.name), len(taker.node_names) if isinstance(taker, Request) else 1
    return Claim(place.project, place.zone, find(taker.accelerator), taker.tier, nodes, taker.reservation)
