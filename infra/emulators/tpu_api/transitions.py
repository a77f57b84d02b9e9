"""When each state ends and what follows: the clock, and the transitions of requests and nodes.

Owns time and everything that happens by itself. Refuses to own what is asked for (cloud.py), what is kept (ledger.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infra.emulators.tpu_api import errors, messages
from infra.emulators.tpu_api.checks import Place, project_number, without_outputs
from infra.emulators.tpu_api.errors import ApiError, Code
from infra.emulators.tpu_api.ledger import Ledger
from infra.emulators.tpu_api.pools import Claim, ZoneRefusal
from infra.emulators.tpu_api.records import (
    CapacityTier,
    Initiator,
    Node,
    NodeHost,
    NodeState,
    Operation,
    OperationEnds,
    QuotaRefusal,
    Request,
    RequestState,
    RpcStatus,
)
from infra.hardware import Accelerator, find

INACTIVE = (RequestState.FAILED, RequestState.SUSPENDED)
_QUEUED = (RequestState.CREATING, RequestState.ACCEPTED, RequestState.WAITING_FOR_RESOURCES)
_READ_ONLY = 2  # AttachedDisk.DiskMode; unspecified is read-write


class Transitions(Ledger):
    """Moves only by `advance` and `settle`: no threads, no sleeping."""

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Moves the clock and does everything that is due on the way, in order."""
        until = self.now_s + seconds
        self.settle()
        while (due := self._next_due()) is not None and due <= until:
            self.now_s = max(self.now_s, due)
            self.settle()
        self.now_s = until

    def settle(self) -> None:
        """Does everything that is due now."""
        while self._step():
            pass

    def _next_due(self) -> float | None:
        due = [node.due_s for node in self.nodes.values() if node.due_s is not None]
        for request in self.requests.values():
            if request.due_s is not None:
                due.append(request.due_s)
            if request.state in _QUEUED:
                due += [at for at in (request.not_before_s, request.expires_s) if at is not None and at > self.now_s]
        return min(due, default=None)

    def _step(self) -> bool:
        moved = False
        for node in list(self.nodes.values()):
            if node.due_s is not None and node.due_s <= self.now_s:
                self._node_is_due(node)
                moved = True
        for request in sorted(self.requests.values(), key=lambda request: request.number):
            moved |= self._request_is_due(request)
        return moved

    # --- requests ---

    def _request_is_due(self, request: Request) -> bool:
        """Does what is due for a request; tells whether that changed anything."""
        if request.state in _QUEUED and request.expires_s is not None and request.expires_s <= self.now_s:
            message = "The request could not be fulfilled before its valid-until time."
            return self._fail(request, Code.DEADLINE_EXCEEDED, message)
        if request.due_s is not None and request.due_s <= self.now_s:
            request.due_s = None
            self._FOLLOWS[request.state](self, request)
            return True
        if request.state in _QUEUED and request.state is not RequestState.CREATING:
            return request.not_before_s <= self.now_s and self._provision(request)
        return False

    def _admit(self, request: Request) -> None:
        claim = self._claim(request)
        refused = self._refused_in_operation(claim, stays=True)
        if self.behaviour.quota_refusal is QuotaRefusal.FAILED_REQUEST:
            refused = self._over_quota(claim, but=request) or refused
        if refused:
            self._fail(request, refused.code, refused.message)
            return
        waiting = RequestState.ACCEPTED if self.behaviour.says_accepted else RequestState.WAITING_FOR_RESOURCES
        self._set(request, waiting, None)
        request.not_before_s = max(request.not_before_s, self.now_s + self.timings.select_s)
        if self.behaviour.create_ends is OperationEnds.ACCEPTED:
            self._end_create(request)

    def _refused_in_operation(self, claim: Claim, stays: bool | None = None) -> ApiError | None:
        """Why the operation of a create ends in an error. stays: only where a request stays, or only where none does.

        A reservation that is not there leaves no request (our choice).
        """
        if (
            claim.tier is CapacityTier.RESERVED
            and claim.reservation
            and not self.pools.has_reservation(claim.reservation)
        ):
            return None if stays else errors.no_reservation()
        refused = self.pools.refusal_of(claim)
        if refused is None or stays not in (None, refused.stays):
            return None
        if refused.how is ZoneRefusal.NO_CAPACITY:
            return errors.no_capacity(claim.zone)
        return errors.no_reservation() if refused.how is ZoneRefusal.NONE_FOR_SALE else None

    def _provision(self, request: Request) -> bool:
        """Creates a request's nodes if there is room; later requests may go first (our choice)."""
        if request.tried == self.revision:
            return False
        request.tried = self.revision
        claim, taken = self._claim(request), self.capacity_claims()
        if request.tier is CapacityTier.RESERVED:
            reservation = self.pools.reservation_for(claim, taken)
            if not reservation:
                return False
        elif self.pools.full(claim, taken):
            return False
        else:
            reservation = ""
        if conflict := self._conflict(request):
            return self._fail(request, Code.FAILED_PRECONDITION, conflict)
        for name in request.node_names:
            spec = request.message.tpu.node_spec[0].node
            node = self._new_node(name, find(request.accelerator), request.tier, spec)
            node.request, node.reservation = request.name, reservation
            node.message.queued_resource = request.name
            node.message.multislice_node = len(request.node_names) > 1
        return self._set(request, RequestState.PROVISIONING, self.timings.provision_s)

    def _conflict(self, request: Request) -> str:
        if taken := [name for name in request.node_names if name in self.nodes]:
            return f"Resource '{taken[0]}' already exists."
        disks = {
            disk.source_disk for disk in request.message.tpu.node_spec[0].node.data_disks if disk.mode != _READ_ONLY
        }
        attached = {
            disk.source_disk
            for node in self.nodes.values()
            for disk in node.message.data_disks
            if disk.mode != _READ_ONLY
        }
        if disks & attached or (disks and len(request.node_names) > 1):
            return f"Disk '{min(disks & attached or disks)}' can be attached to one node only in read-write mode."
        return ""

    def _activate(self, request: Request) -> None:
        for node in self._nodes_of(request):
            self._set_node(node, NodeState.READY, None)
        self._set(request, RequestState.ACTIVE, request.runs_for_s)
        self._end_create(request)

    def _run_out(self, request: Request) -> None:
        """Ends a flex-start request whose time is over. That the service is the initiator is our choice."""
        self._suspend(request, Initiator.SERVICE)

    def _suspended(self, request: Request) -> None:
        for node in self._nodes_of(request):
            if node.state is not NodeState.PREEMPTED or not self.behaviour.preempted_nodes_stay:
                self._remove(node)
        self._set(request, RequestState.SUSPENDED, None)

    def _deleted(self, request: Request) -> None:
        for node in self._nodes_of(request):
            self._remove(node)
        del self.requests[request.name]
        self._log(request.name, "deleted")
        if operation := self.operations.get(request.delete_operation):
            self._complete(operation)

    _FOLLOWS: dict[RequestState, Callable[[Transitions, Request], None]] = {  # noqa: RUF012 (never changed)
        RequestState.CREATING: _admit,
        RequestState.PROVISIONING: _activate,
        RequestState.ACTIVE: _run_out,
        RequestState.SUSPENDING: _suspended,
        RequestState.DELETING: _deleted,
    }

    def _suspend(self, request: Request, initiator: Initiator) -> None:
        """All nodes of a request go, also where one alone was lost (our choice)."""
        self._set(request, RequestState.SUSPENDING, self.timings.suspend_s)
        request.initiator = initiator
        self._end_create(request, RpcStatus(Code.ABORTED.number, f"'{request.name}' was suspended."))
        for node in self._nodes_of(request):
            if node.state is not NodeState.PREEMPTED:
                self._set_node(node, NodeState.DELETING, None)

    def _fail(self, request: Request, code: Code, message: str) -> bool:
        for node in self._nodes_of(request):
            self._remove(node)
        request.failure = RpcStatus(code.number, message)
        self._end_create(request, request.failure)
        return self._set(request, RequestState.FAILED, None, f": {message}")

    def _end_create(self, request: Request, failure: RpcStatus | None = None) -> None:
        operation = self.operations.get(request.create_operation)
        if operation and operation.completed_s is None:
            self._complete(operation, failure)

    def _set(self, request: Request, state: RequestState, after_s: float | None, why: str = "") -> bool:
        request.state, request.since_s = state, self.now_s
        request.due_s = None if after_s is None else self.now_s + after_s
        self._log(request.name, f"{state}{why}")
        return True

    # --- nodes ---

    def _new_node(self, name: str, row: Accelerator, tier: CapacityTier, message: Any) -> Node:
        number = self._next_number()
        shown = without_outputs(message)
        shown.name, shown.id = name, 10**18 + number
        if not shown.accelerator_type:
            shown.accelerator_type = str(row.accelerator_type)
        shown.scheduling_config.spot = tier is CapacityTier.SPOT
        shown.scheduling_config.reserved = tier is CapacityTier.RESERVED
        if not shown.HasField("network_config") and not len(shown.network_configs):
            shown.network_config.network = "default"
        if not shown.service_account.email:
            number_of_project = project_number(Place.of(name).project)
            shown.service_account.email = f"{number_of_project}-compute@developer.gserviceaccount.com"
        messages.set_time(shown.create_time, self.now_s)
        node = Node(name, row.name, tier, shown, self.now_s, hosts=[NodeHost() for _ in range(row.hosts)])
        external = shown.network_config.enable_external_ips
        for worker in range(row.hosts):
            endpoint = shown.network_endpoints.add(
                ip_address=f"10.{number % 250}.{worker // 250}.{worker % 250}", port=8470
            )
            if external:
                endpoint.access_config.external_ip = f"198.18.{number % 250}.{worker % 250}"
        self.nodes[name] = node
        self._log(name, f"{node.state}")
        return node

    def _node_is_due(self, node: Node) -> None:
        if node.state is NodeState.DELETING:
            self._remove(node)
            return
        self._set_node(node, NodeState.STOPPED if node.state is NodeState.STOPPING else NodeState.READY, None)
        for operation in self._running_on(node):
            self._complete(operation)

    def _remove(self, node: Node) -> None:
        del self.nodes[node.name]
        self._log(node.name, "deleted")
        gone = RpcStatus(Code.CANCELLED.number, f"'{node.name}' was deleted.")
        for operation in self._running_on(node):
            self._complete(operation, None if operation.verb == "delete" else gone)

    def _running_on(self, node: Node) -> list[Operation]:
        of_node = [operation for operation in self.operations.values() if operation.target == node.name]
        return [operation for operation in of_node if operation.completed_s is None]

    def _set_node(self, node: Node, state: NodeState, after_s: float | None) -> None:
        node.released = state is NodeState.DELETING and not node.holds_capacity
        node.state, node.due_s = state, None if after_s is None else self.now_s + after_s
        node.health = "HEALTHY" if state is NodeState.READY else "HEALTH_UNSPECIFIED"
        boot_s = self.timings.boot_s
        for index, host in enumerate(node.hosts):
            host.attributes = []
            booted = state is NodeState.READY and boot_s is not None
            host.ready_at_s = self.now_s + (boot_s or 0) + index * self.timings.host_stagger_s if booted else None
        self._log(node.name, f"{state}")
