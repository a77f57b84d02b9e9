"""What the cloud keeps: its clock's time, requests, nodes, operations, events, and all of it as one snapshot.

Owns the records and the sums over them (who holds which capacity and quota), operations and request ids. Refuses to
own when anything changes: transitions.py, cloud.py.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from infra.emulators.tpu_api import errors, messages, views
from infra.emulators.tpu_api.checks import Place, project_number
from infra.emulators.tpu_api.errors import ApiError, Code
from infra.emulators.tpu_api.extras import Shown
from infra.emulators.tpu_api.pools import Claim, Pools, claim_of, quota_name
from infra.emulators.tpu_api.records import (
    HOST_READY,
    Behaviour,
    Event,
    GuestAttribute,
    Node,
    Operation,
    Request,
    RpcStatus,
    SentRequest,
    Timings,
    node_from_json,
    operation_from_json,
    request_from_json,
    to_json,
)

_REQUEST_ID_KEPT_S = 3600  # our choice: no source says for how long a request id is remembered
_MAX_EVENTS = 1000


class Ledger:
    """`now_s` is seconds since 1970."""

    def __init__(
        self,
        timings: Timings | None = None,
        behaviour: Behaviour | None = None,
        now_s: float | None = None,
        host_ready: GuestAttribute = HOST_READY,
    ) -> None:
        self.timings = timings or Timings()
        self.behaviour = behaviour or Behaviour()
        self.now_s = time.time() if now_s is None else now_s
        self.host_ready = host_ready
        self.pools = Pools()
        self.requests: dict[str, Request] = {}
        self.nodes: dict[str, Node] = {}
        self.operations: dict[str, Operation] = {}
        self.sent: dict[str, SentRequest] = {}
        self.events: list[Event] = []
        self.projects: list[str] = []  # ids, as far as anybody named one
        self.revision: int = 0  # counts what has happened
        self._number = 0

    # --- operations ---

    def new_operation(self, verb: str, target: str) -> Operation:
        place = Place.of(target)
        name = f"{place.name}/operations/operation-{self._next_number()}"
        operation = Operation(name, verb, target, self.now_s)
        self.operations[name] = operation
        return operation

    def operation(self, name: str) -> Operation:
        if name not in self.operations:
            raise errors.not_found(name)
        return self.operations[name]

    def end_in_error(self, operation: Operation, failure: RpcStatus) -> None:
        """The operation reports this failure, whatever it has done or will do."""
        operation.failure, operation.response = failure, None
        operation.completed_s = operation.completed_s if operation.completed_s is not None else self.now_s

    def remembered(self, rpc: str, request_id: str, body: str) -> Operation | None:
        """The operation of an earlier call with this request id. Raises ApiError if it asked for something else."""
        for key, sent in list(self.sent.items()):
            if sent.time_s + _REQUEST_ID_KEPT_S < self.now_s:
                del self.sent[key]
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

    def _complete(self, operation: Operation, failure: RpcStatus | None = None, after_s: float = 0) -> Operation:
        if operation.completed_s is not None:
            return operation  # it was made to end in an error
        operation.completed_s = self.now_s + after_s
        operation.failure = failure
        if failure is None:
            operation.response = self._response(operation)
        return operation

    def _response(self, operation: Operation) -> dict[str, Any]:
        if operation.target in self.requests:
            kind, message = "google.cloud.tpu.v2.QueuedResource", self.request_view(self.requests[operation.target])
        elif operation.target in self.nodes:
            kind, message = "google.cloud.tpu.v2.Node", self.node_view(self.nodes[operation.target])
        else:
            return {"@type": "type.googleapis.com/google.protobuf.Empty"}
        return {"@type": f"type.googleapis.com/{kind}", **messages.plain(message)}

    # --- what is shown ---

    def request_view(self, request: Request) -> Any:
        return views.request(request, self.behaviour)

    def node_view(self, node: Node) -> Any:
        return views.node(node, self.behaviour)

    def with_extras(self, values: Any, version: str) -> Any:
        """An answer's JSON with the fields that its messages lack (extras.py)."""
        return Shown(version, self.requests, self.nodes, self.behaviour.extras_in_operations).add(values)

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

    # --- accounts ---

    def quota_claims(self, but: Request | None = None) -> list[Claim]:
        """What counts against quota: every request until it is deleted, in any state, and nodes outside the queue."""
        claims = [self._claim(request) for request in self.requests.values() if request is not but]
        alone = [(Place.of(node.name), node) for node in self.nodes.values() if not node.request]
        return claims + [claim_of(place.project, place.zone, node.accelerator, node.tier, 1) for place, node in alone]

    def capacity_claims(self) -> list[Claim]:
        """Chips that nodes hold."""
        places = [(Place.of(node.name), node) for node in self.nodes.values() if node.holds_capacity]
        return [
            claim_of(place.project, place.zone, node.accelerator, node.tier, 1, node.reservation)
            for place, node in places
        ]

    def _claim(self, request: Request) -> Claim:
        place = Place.of(request.name)
        count = len(request.node_names)
        return claim_of(place.project, place.zone, request.accelerator, request.tier, count, request.reservation)

    def _over_quota(self, claim: Claim, but: Request | None = None) -> ApiError | None:
        limit = self.pools.beyond_quota(claim, self.quota_claims(but))
        if limit is None:
            return None
        where = f"{'region' if limit.place == claim.region else 'zone'} {limit.place}"
        return errors.over_quota(project_number(claim.project), quota_name(limit, claim), limit.units, where)

    def _nodes_of(self, request: Request) -> list[Node]:
        return [node for node in self.nodes.values() if node.request == request.name]

    # --- keeping ---

    def snapshot(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "now_s": self.now_s,
            "number": self._number,
            "revision": self.revision,
            "timings": dataclasses.asdict(self.timings),
            "behaviour": dataclasses.asdict(self.behaviour),
            "host_ready": dataclasses.asdict(self.host_ready),
            "projects": self.projects,
            "pools": self.pools.to_json(),
            "requests": [to_json(request) for request in self.requests.values()],
            "nodes": [to_json(node) for node in self.nodes.values()],
            "operations": [to_json(operation) for operation in self.operations.values()],
            "sent": {key: dataclasses.asdict(sent) for key, sent in self.sent.items()},
            "events": [dataclasses.asdict(event) for event in self.events],
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Back to a snapshot, also one of another Cloud."""
        self.now_s, self._number, self.revision = values["now_s"], values["number"], values["revision"]
        self.timings = Timings(**values["timings"])
        self.behaviour = Behaviour.from_json(values["behaviour"])
        self.host_ready = GuestAttribute(**values["host_ready"])
        self.projects = list(values.get("projects", []))
        self.pools = Pools.from_json(values["pools"])
        self.requests = {record["name"]: request_from_json(record) for record in values["requests"]}
        self.nodes = {record["name"]: node_from_json(record) for record in values["nodes"]}
        self.operations = {record["name"]: operation_from_json(record) for record in values["operations"]}
        self.sent = {key: SentRequest(**sent) for key, sent in values["sent"].items()}
        self.events = [Event(**event) for event in values["events"]]

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _log(self, target: str, text: str) -> None:
        self.revision += 1
        self.events.append(Event(self.now_s, target, text))
        del self.events[:-_MAX_EVENTS]
