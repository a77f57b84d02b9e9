"""When each state ends and what follows: the clock, and the transitions of requests and nodes.

Owns time and everything that happens by itself. Refuses to own what is asked for (cloud.py), what is kept (ledger.py).
"""

from __future__ import annotations

from typing import Any

from infra.emulators.tpu_api import errors, messages
from infra.emulators.tpu_api.checks import Place, project_number, without_outputs
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.ledger import Ledger, claim_of
from infra.emulators.tpu_api.pools import Claim, ZoneRefusal
from infra.emulators.tpu_api.pretended_hosts import booted_bundle, named_bundle
from infra.emulators.tpu_api.records import (
    Initiator,
    Node,
    NodeHost,
    NodeState,
    Operation,
    OperationEnds,
    QuotaRefusal,
    Request,
    RequestState,
)
from infra.hardware import Accelerator, find
from infra.tiers import Tier

INACTIVE = (RequestState.FAILED, RequestState.SUSPENDED)
_QUEUED = (RequestState.CREATING, RequestState.ACCEPTED, RequestState.WAITING_FOR_RESOURCES)
_READ_ONLY = 2  # AttachedDisk.DiskMode; unspecified is read-write


class Transitions:
    """Moves the ledger only by `advance` and `settle`: no threads, no sleeping."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Moves the clock and does everything that is due on the way, in order."""
        until = self.ledger.now_s + seconds
        self.settle()
        while (due := self._next_due()) is not None and due <= until:
            self.ledger.now_s = max(self.ledger.now_s, due)
            self.settle()
        self.ledger.now_s = until

    def settle(self) -> None:
        """Does everything that is due now."""
        while self._step():
            pass

    def _next_due(self) -> float | None:
        due = [node.due_s for node in self.ledger.nodes.values()]
        for request in self.ledger.requests.values():
            due.append(request.due_s)
            if request.state in _QUEUED:
                limits = (request.not_before_s, request.expires_s)
                due += [at for at in limits if at is not None and at > self.ledger.now_s]
        return min((at for at in due if at is not None), default=None)

    def _step(self) -> bool:
        moved = False
        for node in list(self.ledger.nodes.values()):
            if node.due_s is not None and node.due_s <= self.ledger.now_s:
                self._node_is_due(node)
                moved = True
        for request in sorted(self.ledger.requests.values(), key=lambda request: request.number):
            moved |= self._request_is_due(request)
        return moved

    # --- requests ---

    def _request_is_due(self, request: Request) -> bool:
        """Does what is due for a request; tells whether that changed anything."""
        now_s = self.ledger.now_s
        if request.state in _QUEUED and request.expires_s is not None and request.expires_s <= now_s:
            message = "The request could not be fulfilled before its valid-until time."
            return self.fail(request, Code.DEADLINE_EXCEEDED, message)
        if request.due_s is not None and request.due_s <= now_s:
            request.due_s = None
            self._end_state(request)
            return True
        if request.state in _QUEUED and request.state is not RequestState.CREATING:
            return request.not_before_s <= now_s and self._provision(request)
        return False

    def _end_state(self, request: Request) -> None:
        match request.state:
            case RequestState.CREATING:
                self._admit(request)
            case RequestState.PROVISIONING:
                for node in self.ledger.nodes_of(request):
                    self.move_node(node, NodeState.READY, None)
                self.move(request, RequestState.ACTIVE, request.runs_for_s)
                self.end_create(request)
            case RequestState.ACTIVE:  # flex-start whose time is over; that the service is the initiator is our choice
                self.suspend(request, Initiator.SERVICE)
            case RequestState.SUSPENDING:
                for node in self.ledger.nodes_of(request):
                    if node.state is not NodeState.PREEMPTED or not self.ledger.behaviour.preempted_nodes_stay:
                        self._remove(node)
                self.move(request, RequestState.SUSPENDED, None)
            case RequestState.DELETING:
                for node in self.ledger.nodes_of(request):
                    self._remove(node)
                del self.ledger.requests[request.name]
                self.ledger.log(request.name, "deleted")
                if operation := self.ledger.operations.get(request.delete_operation):
                    self.ledger.complete(operation)
            case _:
                raise AssertionError(f"{request.state} does not end by itself")

    def _admit(self, request: Request) -> None:
        claim, behaviour = claim_of(request), self.ledger.behaviour
        refused = self.refused_in_operation(claim, stays=True)
        if behaviour.quota_refusal is QuotaRefusal.FAILED_REQUEST:
            refused = self.ledger.over_quota(claim, but=request) or refused
        if refused:
            self.fail(request, refused.code, refused.message)
            return
        self.move(
            request, RequestState.ACCEPTED if behaviour.says_accepted else RequestState.WAITING_FOR_RESOURCES, None
        )
        request.not_before_s = max(request.not_before_s, self.ledger.now_s + self.ledger.timings.select_s)
        if behaviour.create_ends is OperationEnds.ACCEPTED:
            self.end_create(request)

    def refused_in_operation(self, claim: Claim, stays: bool | None = None) -> ApiError | None:
        """Why the operation of a create ends in an error; with `stays` only where a FAILED request is left, or is not.

        A reservation that is not there leaves no request (our choice).
        """
        pools = self.ledger.pools
        if claim.tier is Tier.RESERVED and claim.reservation and not pools.has_reservation(claim.reservation):
            return None if stays else errors.no_reservation()
        refused = pools.refusal_of(claim)
        if refused is None or stays not in (None, refused.stays):
            return None
        if refused.how is ZoneRefusal.NO_CAPACITY:
            return errors.no_capacity(claim.zone)
        return errors.no_reservation() if refused.how is ZoneRefusal.NONE_FOR_SALE else None

    def _provision(self, request: Request) -> bool:
        """Creates a request's nodes if there is room; later requests may go first (our choice)."""
        if request.tried == self.ledger.revision:
            return False
        request.tried = self.ledger.revision
        claim, taken = claim_of(request), self.ledger.capacity_claims()
        reservation = ""
        if request.tier is Tier.RESERVED:
            reservation = self.ledger.pools.reservation_for(claim, taken)
            if not reservation:
                return False
        elif self.ledger.pools.full(claim, taken):
            return False
        if conflict := self._conflict(request):
            return self.fail(request, Code.FAILED_PRECONDITION, conflict)
        for name in request.node_names:
            spec = request.message.tpu.node_spec[0].node
            node = self.new_node(name, find(request.accelerator), request.tier, spec)
            node.request, node.reservation = request.name, reservation
            node.message.queued_resource = request.name
            node.message.multislice_node = len(request.node_names) > 1
        return self.move(request, RequestState.PROVISIONING, self.ledger.timings.provision_s)

    def _conflict(self, request: Request) -> str:
        if taken := [name for name in request.node_names if name in self.ledger.nodes]:
            return f"Resource '{taken[0]}' already exists."
        disks = _written_disks(request.message.tpu.node_spec[0].node)
        attached = {disk for node in self.ledger.nodes.values() for disk in _written_disks(node.message)}
        if disks & attached or (disks and len(request.node_names) > 1):
            return f"Disk '{min(disks & attached or disks)}' can be attached to one node only in read-write mode."
        return ""

    def suspend(self, request: Request, initiator: Initiator) -> None:
        """All nodes of a request go, also where one alone was lost (our choice)."""
        self.move(request, RequestState.SUSPENDING, self.ledger.timings.suspend_s)
        request.initiator = initiator
        self.end_create(request, RpcStatus(Code.ABORTED.number, f"'{request.name}' was suspended."))
        for node in self.ledger.nodes_of(request):
            if node.state is not NodeState.PREEMPTED:
                self.move_node(node, NodeState.DELETING, None)

    def fail(self, request: Request, code: Code, message: str) -> bool:
        for node in self.ledger.nodes_of(request):
            self._remove(node)
        request.failure = RpcStatus(code.number, message)
        self.end_create(request, request.failure)
        return self.move(request, RequestState.FAILED, None, f": {message}")

    def end_create(self, request: Request, failure: RpcStatus | None = None) -> None:
        if operation := self.ledger.operations.get(request.create_operation):
            self.ledger.complete(operation, failure)

    def move(self, request: Request, state: RequestState, after_s: float | None, why: str = "") -> bool:
        """Into a state that ends by itself after that many seconds, or not. Returns that something has moved."""
        request.state, request.since_s = state, self.ledger.now_s
        request.due_s = None if after_s is None else self.ledger.now_s + after_s
        self.ledger.log(request.name, f"{state}{why}")
        return True

    # --- nodes ---

    def new_node(self, name: str, row: Accelerator, tier: Tier, message: Any) -> Node:
        number = self.ledger.next_number()
        shown = without_outputs(message)
        shown.name, shown.id = name, 10**18 + number
        shown.accelerator_type = shown.accelerator_type or str(row.accelerator_type)
        shown.scheduling_config.spot = tier is Tier.SPOT
        shown.scheduling_config.reserved = tier is Tier.RESERVED
        if not shown.HasField("network_config") and not len(shown.network_configs):
            shown.network_config.network = "default"
        if not shown.service_account.email:
            number_of_project = project_number(Place.of(name).project)
            shown.service_account.email = f"{number_of_project}-compute@developer.gserviceaccount.com"
        messages.set_time(shown.create_time, self.ledger.now_s)
        network = 127 if self.ledger.boots(row.name) and self.ledger.hosts_on_loopback else 10
        for worker in range(row.hosts):
            address = f"{network}.{number % 250}.{worker // 250}.{worker % 250}"
            endpoint = shown.network_endpoints.add(ip_address=address, port=8470)
            if shown.network_config.enable_external_ips:
                endpoint.access_config.external_ip = f"198.18.{number % 250}.{worker % 250}"
        node = Node(name, row.name, tier, shown, self.ledger.now_s, hosts=[NodeHost() for _ in range(row.hosts)])
        self.ledger.nodes[name] = node
        self.ledger.log(name, f"{node.state}")
        return node

    def _node_is_due(self, node: Node) -> None:
        if node.state is NodeState.DELETING:
            self._remove(node)
            return
        self.move_node(node, NodeState.STOPPED if node.state is NodeState.STOPPING else NodeState.READY, None)
        for operation in self._running_on(node):
            self.ledger.complete(operation)

    def _remove(self, node: Node) -> None:
        del self.ledger.nodes[node.name]
        self.ledger.log(node.name, "deleted")
        gone = RpcStatus(Code.CANCELLED.number, f"'{node.name}' was deleted.")
        for operation in self._running_on(node):
            self.ledger.complete(operation, None if operation.verb == "delete" else gone)

    def _running_on(self, node: Node) -> list[Operation]:
        of_node = [operation for operation in self.ledger.operations.values() if operation.target == node.name]
        return [operation for operation in of_node if operation.completed_s is None]

    def move_node(self, node: Node, state: NodeState, after_s: float | None) -> None:
        """Into a state that ends by itself after that many seconds, or not."""
        now_s, timings = self.ledger.now_s, self.ledger.timings
        node.released = state is NodeState.DELETING and not node.holds_capacity
        node.state, node.due_s = state, None if after_s is None else now_s + after_s
        node.health = "HEALTHY" if state is NodeState.READY else "HEALTH_UNSPECIFIED"
        comes_up = state is NodeState.READY and not self.ledger.boots(node.accelerator)
        bundle = booted_bundle(node) if comes_up else named_bundle(node)
        for index, host in enumerate(node.hosts):
            host.boot(bundle)
            if comes_up and timings.boot_s is not None:
                host.ready_at_s = now_s + timings.boot_s + index * timings.host_stagger_s
        self.ledger.log(node.name, f"{state}")


def _written_disks(node: Any) -> set[str]:
    return {disk.source_disk for disk in node.data_disks if disk.mode != _READ_ONLY}
