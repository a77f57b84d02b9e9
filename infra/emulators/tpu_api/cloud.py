"""The simulated cloud: what a client can ask of it.

Owns what each of these means for requests and nodes. Refuses to own messages of calls (service.py), HTTP (server.py),
what is refused by its form (checks.py), what follows later (transitions.py), what a script does (levers.py) and how
much there is (pools.py).
"""

from __future__ import annotations

import time
from copy import deepcopy
from functools import reduce
from typing import Any

from infra.emulators.tpu_api import checks, errors, messages
from infra.emulators.tpu_api.checks import Place, Wanted, check_request, without_outputs
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.ledger import Ledger, claim_of
from infra.emulators.tpu_api.levers import Levers
from infra.emulators.tpu_api.pools import Claim, ZoneRefusal
from infra.emulators.tpu_api.records import (
    Behaviour,
    Extras,
    Hidden,
    Initiator,
    Node,
    NodeState,
    Operation,
    QuotaRefusal,
    Request,
    RequestState,
    Timings,
)
from infra.emulators.tpu_api.transitions import INACTIVE, Transitions
from infra.hardware import Accelerator
from infra.tiers import Tier


class Cloud:
    """Not safe for threads: the server holds a lock around each call. `now_s` is seconds since 1970."""

    def __init__(
        self, timings: Timings | None = None, behaviour: Behaviour | None = None, now_s: float | None = None
    ) -> None:
        self.ledger = Ledger(timings or Timings(), behaviour or Behaviour(), time.time() if now_s is None else now_s)
        self.transitions = Transitions(self.ledger)
        self.levers = Levers(self.ledger, self.transitions)

    # --- queued resources ---

    def create_request(self, place: Place, request_id: str, message: Any, extras: Extras | None = None) -> Operation:
        """Puts a request into the queue. Raises ApiError."""
        request_id = request_id or f"qr-{self.ledger.next_number()}"
        name = f"{place.name}/queuedResources/{request_id}"
        if name in self.ledger.requests:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        extras = extras or Extras()
        wanted = check_request(place, request_id, message, extras)
        if taken := [name for name in wanted.node_names if name in self.ledger.nodes]:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{taken[0]}' already exists.", "RESOURCE_ALREADY_EXISTS")
        request = self._new_request(name, wanted, message, extras)
        claim = claim_of(request)
        self._refuse_at_call(claim, request.message.tpu.node_spec[0].node)
        over_quota = self.ledger.over_quota(claim)
        if over_quota and self.ledger.behaviour.quota_refusal is QuotaRefusal.AT_CALL:
            raise over_quota
        operation = self.ledger.new_operation("create", name)
        refused = over_quota if self.ledger.behaviour.quota_refusal is QuotaRefusal.IN_OPERATION else None
        if refused := refused or self.transitions.refused_in_operation(claim, stays=False):
            return self.ledger.complete(operation, refused.failure, after_s=self.ledger.timings.admit_s)
        self.ledger.requests[name] = request
        request.create_operation = operation.name
        self.ledger.log(name, f"requested: {len(wanted.node_names)} x {wanted.row.name}, {wanted.tier}")
        self.transitions.settle()
        return operation

    def delete_request(self, name: str, force: bool) -> Operation:
        """Deletes a request, with `force` its nodes too. Raises ApiError."""
        request = self.request(name, Hidden.DELETE)
        nodes = self.ledger.nodes_of(request)
        if request.state is RequestState.DELETING:
            if self.ledger.behaviour.deletes_join:
                return self.ledger.operation(request.delete_operation)
            raise ApiError(Code.ABORTED, f"'{name}' is already being deleted.", "OPERATION_IN_PROGRESS")
        if nodes and not force and request.state not in INACTIVE:
            message = (
                f"'{name}' is {request.state} and has {len(nodes)} nodes: delete them first, or set force to true."
            )
            raise ApiError(Code.FAILED_PRECONDITION, message, "QUEUED_RESOURCE_HAS_NODES")
        operation = self.ledger.new_operation("delete", name)
        request.delete_operation = operation.name
        self.transitions.end_create(request, RpcStatus(Code.CANCELLED.number, f"'{name}' was deleted."))
        self.transitions.move(request, RequestState.DELETING, self.ledger.timings.delete_s if nodes else 0)
        for node in nodes:
            self.transitions.move_node(node, NodeState.DELETING, None)
        self.transitions.settle()
        return operation

    def reset_request(self, name: str) -> Operation:
        """Restarts the hosts of an ACTIVE request (our choice: another one is refused)."""
        request = self.request(name, Hidden.DELETE)
        if request.state is not RequestState.ACTIVE:
            message = f"'{name}' is {request.state}: only an ACTIVE queued resource can be reset."
            raise ApiError(Code.FAILED_PRECONDITION, message, "INVALID_STATE")
        for node in self.ledger.nodes_of(request):
            self.transitions.move_node(node, NodeState.RESTARTING, self.ledger.timings.update_s)
        return self.ledger.complete(self.ledger.new_operation("reset", name))

    def _refuse_at_call(self, claim: Claim, node: Any) -> None:
        refused = self.ledger.pools.refusal_of(claim)
        if refused and refused.how is ZoneRefusal.NOT_IN_ZONE:
            raise errors.not_in_zone(checks.asked_accelerator(node), claim.zone)

    def request(self, name: str, call: Hidden) -> Request:
        """The request of that name. Raises ApiError where there is none that this kind of call sees yet."""
        if name not in self.ledger.requests or self.is_hidden(self.ledger.requests[name], call):
            raise errors.not_found(name)
        return self.ledger.requests[name]

    def is_hidden(self, request: Request, call: Hidden) -> bool:
        is_young = self.ledger.now_s < request.create_s + self.ledger.behaviour.appears_after_s
        return is_young and self.ledger.behaviour.hidden_from.includes(call)

    def _new_request(self, name: str, wanted: Wanted, message: Any, extras: Extras) -> Request:
        stored = deepcopy(message)
        stored.name = name
        stored.ClearField("state")
        stored.tpu.node_spec[0].parent = Place.of(name).name
        stored.tpu.node_spec[0].node.CopyFrom(without_outputs(message.tpu.node_spec[0].node))
        messages.set_time(stored.create_time, self.ledger.now_s)
        not_before, expires = _interval(stored, self.ledger.now_s)
        return Request(
            name=name,
            accelerator=wanted.row.name,
            tier=wanted.tier,
            node_names=list(wanted.node_names),
            message=stored,
            create_s=self.ledger.now_s,
            number=self.ledger.next_number(),
            since_s=self.ledger.now_s,
            due_s=self.ledger.now_s + self.ledger.timings.admit_s,
            not_before_s=not_before,
            expires_s=expires,
            reservation=self.ledger.by_id(wanted.reservation),
            runs_for_s=wanted.runs_for_s,
            extras=extras,
        )

    # --- nodes ---

    def create_node(self, place: Place, node_id: str, row: Accelerator, message: Any) -> Operation:
        """Creates a node outside the queue; without room for it now its operation fails. Raises ApiError."""
        name = f"{place.name}/nodes/{node_id}"
        if name in self.ledger.nodes:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        scheduling = message.scheduling_config
        spot = scheduling.spot or scheduling.preemptible
        tier = Tier.SPOT if spot else Tier.RESERVED if scheduling.reserved else Tier.ON_DEMAND
        claim = Claim(place.project, place.zone, row, tier, 1)
        self._refuse_at_call(claim, message)
        if over_quota := self.ledger.over_quota(claim):
            raise over_quota
        operation = self.ledger.new_operation("create", name)
        taken = self.ledger.capacity_claims()
        reservation = self.ledger.pools.reservation_for(claim, taken) if tier is Tier.RESERVED else ""
        refused = self.transitions.refused_in_operation(claim)
        if self.ledger.pools.full(claim, taken):
            refused = errors.no_capacity(place.zone)
        elif tier is Tier.RESERVED and not reservation:
            refused = errors.reservation_full()
        if refused:
            return self.ledger.complete(operation, refused.failure, after_s=self.ledger.timings.admit_s)
        node = self.transitions.new_node(name, row, tier, message)
        node.due_s, node.reservation = self.ledger.now_s + self.ledger.timings.provision_s, reservation
        self.transitions.settle()
        return operation

    def delete_node(self, name: str) -> Operation:
        node = self.node(name)
        if node.state is NodeState.DELETING:
            raise ApiError(Code.ABORTED, f"'{name}' is already being deleted.", "OPERATION_IN_PROGRESS")
        operation = self.ledger.new_operation("delete", name)
        request = self.ledger.requests.get(node.request)
        self.transitions.move_node(node, NodeState.DELETING, self.ledger.timings.delete_s)
        if request and request.state in (RequestState.PROVISIONING, RequestState.ACTIVE):
            self.transitions.suspend(request, Initiator.USER)
            node.due_s = self.ledger.now_s + self.ledger.timings.delete_s  # it may go before the others
        self.transitions.settle()
        return operation

    def patch_node(self, name: str, message: Any, paths: list[str]) -> Operation:
        """Copies the named fields; the request's copy of the node stays as it is."""
        node = self.node(name)
        if node.state is NodeState.DELETING:
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' is being deleted.", "INVALID_STATE")
        if self.ledger.behaviour.updates_conflict and self._is_updating(name):
            raise ApiError(Code.ABORTED, f"'{name}' is already being updated.", "OPERATION_IN_PROGRESS")
        for path in paths:
            *outer, last = path.split(".")
            source, target = (reduce(getattr, outer, each) for each in (message, node.message))
            target.ClearField(last)
            if last in ("labels", "metadata", "tags"):
                getattr(target, last).MergeFrom(getattr(source, last))
            else:
                setattr(target, last, getattr(source, last))
        self.ledger.log(name, f"updated: {', '.join(paths)}")
        return self.ledger.complete(self.ledger.new_operation("update", name), after_s=self.ledger.timings.update_s)

    def _is_updating(self, name: str) -> bool:
        updates = [each for each in self.ledger.operations.values() if (each.target, each.verb) == (name, "update")]
        return not all(operation.is_done(self.ledger.now_s) for operation in updates)

    def switch_node(self, name: str, on: bool) -> Operation:
        """Starts or stops. Only a single host outside the queue can be stopped (our choice for the latter)."""
        node = self.node(name)
        if len(node.hosts) > 1 or node.request:
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' cannot be stopped or started.", "INVALID_STATE")
        if node.state is not (NodeState.STOPPED if on else NodeState.READY):
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' is {node.state}.", "INVALID_STATE")
        self.transitions.move_node(node, NodeState.STARTING if on else NodeState.STOPPING, self.ledger.timings.update_s)
        operation = self.ledger.new_operation("start" if on else "stop", name)
        self.transitions.settle()
        return operation

    def node(self, name: str) -> Node:
        if name not in self.ledger.nodes:
            raise errors.not_found(name)
        return self.ledger.nodes[name]


def _interval(message: Any, now_s: float) -> tuple[float, float | None]:
    """The earliest and the latest time at which a request may get its nodes, on the cloud's clock."""
    policy = message.queueing_policy
    which = policy.WhichOneof("start_timing_constraints")
    if which == "valid_interval":
        interval = policy.valid_interval
        starts = messages.seconds_of(interval.start_time)
        return starts, messages.seconds_of(interval.end_time) if interval.HasField("end_time") else None
    if which is None:
        return 0.0, None
    value = messages.seconds_of(getattr(policy, which)) + (now_s if which.endswith("duration") else 0)
    return (value, None) if which.startswith("valid_after") else (0.0, value)
