"""The simulated cloud: what a client can ask of it and what a script can do to it.

Owns what each of these means for requests and nodes. Refuses to own messages of calls (service.py), HTTP (server.py),
what is refused by its form (checks.py), what follows later (machine.py) and how much there is (pools.py).

Written from the documentation and the client's docstrings; never compared with the real service. What they leave open
is a field of Behaviour, or marked "our choice".
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from infra.emulators.tpu_api import checks, messages
from infra.emulators.tpu_api.checks import Place, Wanted, check_request, without_outputs
from infra.emulators.tpu_api.ledger import not_found
from infra.emulators.tpu_api.machine import INACTIVE, Machine
from infra.emulators.tpu_api.messages import ApiError, Code
from infra.emulators.tpu_api.pools import Claim, QuotaTier
from infra.emulators.tpu_api.records import (
    Failure,
    GuestAttribute,
    Initiator,
    Node,
    NodeState,
    Operation,
    QuotaRefusal,
    Request,
    RequestState,
    Tier,
)
from infra.hardware import Accelerator, families


class Cloud(Machine):
    """Whoever calls from several threads holds a lock around each call."""

    # --- queued resources ---

    def create_request(self, place: Place, request_id: str, message: Any) -> Operation:
        """Puts a request into the queue. Raises ApiError."""
        request_id = request_id or f"qr-{self._next_number()}"
        name = f"{place.name}/queuedResources/{request_id}"
        if name in self.requests:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        wanted = check_request(place, request_id, message)
        if taken := [name for name in wanted.node_names if name in self.nodes]:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{taken[0]}' already exists.", "RESOURCE_ALREADY_EXISTS")
        if wanted.reservation and self.pools.reservation(wanted.reservation) is None:
            raise ApiError(
                Code.NOT_FOUND, f"Reservation '{wanted.reservation}' was not found.", "RESERVATION_NOT_FOUND"
            )
        request = self._new_request(name, wanted, message)
        refused = self._over_quota(self._claim(request))
        if refused and self.behaviour.quota_refusal is QuotaRefusal.AT_CALL:
            raise refused
        operation = self.new_operation("create", name)
        if refused and self.behaviour.quota_refusal is QuotaRefusal.IN_OPERATION:
            return self._complete(operation, _failure(refused))
        self.requests[name] = request
        request.create_operation = operation.name
        self._log(name, f"requested: {len(wanted.node_names)} x {wanted.row.name}, {wanted.tier}")
        self.settle()
        return operation

    def delete_request(self, name: str, force: bool) -> Operation:
        """Deletes a request, with `force` its nodes too. Raises ApiError."""
        request = self.request(name)
        nodes = self._nodes_of(request)
        if request.state is RequestState.DELETING:
            if self.behaviour.deletes_join:
                return self.operation(request.delete_operation)
            raise ApiError(Code.ABORTED, f"'{name}' is already being deleted.", "OPERATION_IN_PROGRESS")
        if nodes and not force and request.state not in INACTIVE:
            message = (
                f"'{name}' is {request.state} and has {len(nodes)} nodes: delete them first, or set force to true."
            )
            raise ApiError(Code.FAILED_PRECONDITION, message, "QUEUED_RESOURCE_HAS_NODES")
        operation = self.new_operation("delete", name)
        request.delete_operation = operation.name
        self._end_create(request, Failure(Code.CANCELLED.number, f"'{name}' was deleted."))
        self._set(request, RequestState.DELETING, self.timings.delete_s if nodes else 0)
        for node in nodes:
            self._set_node(node, NodeState.DELETING, None)
        self.settle()
        return operation

    def reset_request(self, name: str) -> Operation:
        """Restarts the hosts of an ACTIVE request (our choice: another one is refused)."""
        request = self.request(name)
        if request.state is not RequestState.ACTIVE:
            message = f"'{name}' is {request.state}: only an ACTIVE queued resource can be reset."
            raise ApiError(Code.FAILED_PRECONDITION, message, "INVALID_STATE")
        for node in self._nodes_of(request):
            self._set_node(node, NodeState.RESTARTING, self.timings.update_s)
        return self._complete(self.new_operation("reset", name))

    def request(self, name: str) -> Request:
        if name not in self.requests:
            raise not_found(name)
        return self.requests[name]

    def _new_request(self, name: str, wanted: Wanted, message: Any) -> Request:
        kept = messages.copy(message)
        kept.name = name
        kept.ClearField("state")
        kept.tpu.node_spec[0].node.CopyFrom(without_outputs(message.tpu.node_spec[0].node))
        messages.set_time(kept.create_time, self.now_s)
        not_before, expires = _interval(kept, self.now_s)
        return Request(
            name=name,
            accelerator=wanted.row.name,
            tier=wanted.tier,
            node_names=list(wanted.node_names),
            message=kept,
            create_s=self.now_s,
            number=self._next_number(),
            since_s=self.now_s,
            due_s=self.now_s + self.timings.admit_s,
            not_before_s=not_before,
            expires_s=expires,
            reservation=wanted.reservation,
        )

    # --- nodes ---

    def create_node(self, place: Place, node_id: str, row: Accelerator, message: Any) -> Operation:
        """A node without a queue: what is not there now is an error of the operation. Raises ApiError."""
        name = f"{place.name}/nodes/{node_id}"
        if name in self.nodes:
            raise ApiError(Code.ALREADY_EXISTS, f"Resource '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        scheduling = message.scheduling_config
        spot = scheduling.spot or scheduling.preemptible
        tier = Tier.SPOT if spot else Tier.RESERVED if scheduling.reserved else Tier.ON_DEMAND
        claim = Claim(place.project, place.zone, row, tier, 1)
        if refused := self._over_quota(claim):
            raise refused
        operation = self.new_operation("create", name)
        taken = self.capacity_claims()
        reservation = self.pools.reservation_for(claim, taken) if tier is Tier.RESERVED else ""
        if self.pools.full(claim, taken) or (tier is Tier.RESERVED and not reservation):
            message = f'There is no more capacity in the zone "{place.zone}"; you can try in another zone.'
            return self._complete(operation, Failure(Code.RESOURCE_EXHAUSTED.number, message))
        node = self._new_node(name, row, tier, message)
        node.due_s, node.reservation = self.now_s + self.timings.provision_s, reservation
        self.settle()
        return operation

    def delete_node(self, name: str) -> Operation:
        node = self.node(name)
        if node.state is NodeState.DELETING:
            raise ApiError(Code.ABORTED, f"'{name}' is already being deleted.", "OPERATION_IN_PROGRESS")
        operation = self.new_operation("delete", name)
        request = self.requests.get(node.request)
        self._set_node(node, NodeState.DELETING, self.timings.delete_s)
        if request and request.state in (RequestState.PROVISIONING, RequestState.ACTIVE):
            self._suspend(request, Initiator.USER)
            node.due_s = self.now_s + self.timings.delete_s  # it may go before the others
        self.settle()
        return operation

    def patch_node(self, name: str, message: Any, paths: list[str]) -> Operation:
        """Copies the named fields; the request's copy of the node stays as it is."""
        node = self.node(name)
        if node.state is NodeState.DELETING:
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' is being deleted.", "INVALID_STATE")
        for path in paths:
            source, target, (*outer, last) = message, node.message, path.split(".")
            for part in outer:
                source, target = getattr(source, part), getattr(target, part)
            target.ClearField(last)
            if last in ("labels", "metadata"):
                getattr(target, last).update(getattr(source, last))
            elif last == "tags":
                target.tags.extend(source.tags)
            else:
                setattr(target, last, getattr(source, last))
        self._log(name, f"updated: {', '.join(paths)}")
        return self._complete(self.new_operation("update", name), after_s=self.timings.update_s)

    def switch_node(self, name: str, on: bool) -> Operation:
        """Starts or stops. Only a single host outside the queue can be stopped (our choice for the latter)."""
        node = self.node(name)
        if len(node.hosts) > 1 or node.request:
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' cannot be stopped or started.", "INVALID_STATE")
        if node.state is not (NodeState.STOPPED if on else NodeState.READY):
            raise ApiError(Code.FAILED_PRECONDITION, f"'{name}' is {node.state}.", "INVALID_STATE")
        self._set_node(node, NodeState.STARTING if on else NodeState.STOPPING, self.timings.update_s)
        operation = self.new_operation("start" if on else "stop", name)
        self.settle()
        return operation

    def node(self, name: str) -> Node:
        if name not in self.nodes:
            raise not_found(name)
        return self.nodes[name]

    def guest_attributes(self, node: Node, worker: int) -> list[GuestAttribute]:
        """What a host has published until now."""
        host = node.hosts[worker]
        by_itself = host.ready_at_s is not None and host.ready_at_s <= self.now_s and node.state is NodeState.READY
        if by_itself and all((one.namespace, one.key) != _key(self.host_ready) for one in host.attributes):
            return [*host.attributes, self.host_ready]
        return list(host.attributes)

    def hosts_ready(self, node: Node) -> int:
        return sum(self.host_ready in self.guest_attributes(node, worker) for worker in range(len(node.hosts)))

    # --- what a script does ---

    def preempt(self, name: str) -> None:
        """Takes a spot request or node away. Raises ValueError if it is not spot or not there."""
        node, request = self.nodes.get(name), self.requests.get(name)
        request = request or (self.requests.get(node.request) if node else None)
        lost = [node] if node else self._nodes_of(request) if request else []
        if not lost:
            raise ValueError(f"{name} has nothing to preempt; nodes: {', '.join(self.nodes) or 'none'}")
        if lost[0].tier is not Tier.SPOT:
            raise ValueError(f"{name} is {lost[0].tier}: only spot is preempted")
        for one in lost:
            self._set_node(one, NodeState.PREEMPTED, None)
        if request and request.state in (RequestState.PROVISIONING, RequestState.ACTIVE):
            self._suspend(request, Initiator.SERVICE)
        self.settle()

    def fail_request(self, name: str, message: str, code: Code = Code.INTERNAL) -> None:
        """A late-discovered problem: the request is FAILED and its nodes are gone."""
        self._fail(self._known(name), code, message)
        self.settle()

    def set_host_ready(self, node_name: str, worker: int | None = None, ready: bool = True) -> None:
        """A host, or all of a node, publishes that it is ready, or takes it back."""
        node = self._known_node(node_name)
        for host in node.hosts if worker is None else [node.hosts[worker]]:
            host.ready_at_s = None
            host.attributes = [one for one in host.attributes if _key(one) != _key(self.host_ready)]
            host.attributes += [self.host_ready] if ready else []
        self._log(node_name, f"{self.hosts_ready(node)}/{len(node.hosts)} hosts ready")

    def set_guest_attribute(self, node_name: str, worker: int, attribute: GuestAttribute) -> None:
        host = self._known_node(node_name).hosts[worker]
        host.attributes = [one for one in host.attributes if _key(one) != _key(attribute)] + [attribute]
        self.revision += 1

    def set_node_state(self, node_name: str, state: NodeState, health: str = "HEALTHY", why: str = "") -> None:
        """For example REPAIRING, or READY with UNHEALTHY_MAINTENANCE. Hosts keep what they have published."""
        node = self._known_node(node_name)
        node.state, node.health, node.health_description = state, health, why
        self._log(node_name, f"{state}, {health}{why and ': '}{why}")

    def set_capacity(self, zone: str, accelerator: str, chips: int | None) -> None:
        """Chips of a family or a size in a zone; None is no limit. What runs stays."""
        _check_known("zone", zone, checks.zones())
        _check_known("accelerator", accelerator, (*families(), *(row.name for row in checks.offered())))
        self.pools.set_capacity(zone, accelerator, chips)
        self._log(zone, f"capacity of {accelerator}: {'unlimited' if chips is None else f'{chips} chips'}")
        self.settle()

    def stockout(self, zone: str, accelerator: str) -> None:
        """Nothing more is given out."""
        self.set_capacity(zone, accelerator, 0)

    def set_quota(
        self, project: str, place: str, family: str, units: int | None, tier: QuotaTier = QuotaTier.ON_DEMAND
    ) -> None:
        """In the unit of the hardware table; `place` is a zone or a region; None is no limit."""
        regions = tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in checks.zones()))
        _check_known("place", place, (*checks.zones(), *regions))
        _check_known("family", family, families())
        self.pools.set_quota(project, place, family, tier, units)
        self._log(f"projects/{project}", f"quota of {family} {tier} in {place}: {units}")

    def set_reservation(self, name: str, family: str, chips: int | None) -> None:
        """`name` is projects/P/locations/Z/reservations/R; None removes it."""
        if not re.fullmatch(r"projects/[^/]+/locations/[^/]+/reservations/[^/]+", name):
            raise ValueError(f"{name} is not projects/<project>/locations/<zone>/reservations/<name>")
        _check_known("zone", Place.of(name).zone, checks.zones())
        _check_known("family", family, families())
        self.pools.set_reservation(name, family, chips)
        self._log(name, f"reservation of {chips} chips of {family}")
        self.settle()

    def _known(self, name: str) -> Request:
        if name not in self.requests:
            raise ValueError(f"there is no queued resource {name}; there are: {', '.join(self.requests) or 'none'}")
        return self.requests[name]

    def _known_node(self, name: str) -> Node:
        if name not in self.nodes:
            raise ValueError(f"there is no node {name}; there are: {', '.join(self.nodes) or 'none'}")
        return self.nodes[name]


def _check_known(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        nearest = ", ".join(difflib.get_close_matches(given, known, n=3, cutoff=0))
        raise ValueError(f"{what} {given!r} is not one that the emulator knows; nearest: {nearest}")


def _failure(error: ApiError) -> Failure:
    return Failure(error.code.number, error.message)


def _key(attribute: GuestAttribute) -> tuple[str, str]:
    return attribute.namespace, attribute.key


def _interval(message: Any, now_s: float) -> tuple[float, float | None]:
    """Not before and not after, on the cloud's clock."""
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
