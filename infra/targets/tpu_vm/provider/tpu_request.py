"""One request of the Cloud TPU API, wherever it lies: ask for it once, find it again, see what has become of it.

Owns that there is one and not two: it is found by name and label in every zone of the list before it is asked for, and
one that is somebody else's is refused (whose it is: tpu_ownership.py). Refuses to own waiting for chips
(slice_ready_resource.py), its nodes (tpu_nodes.py) and deletion (tpu_cleanup.py).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.google_cloud import retries
from infra.google_cloud.api_errors import ClosedError, FullError, SilentError, ThereAlreadyError
from infra.names import MADE_LABEL, STACK_LABEL, STATE_LABEL
from infra.providers.resource import CancelledError, Context, Outputs, ResourceError
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup, tpu_nodes, tpu_ownership, tpu_wanted
from infra.targets.tpu_vm.provider.tpu_cleanup import appears_s
from infra.targets.tpu_vm.provider.tpu_inputs import (
    QueuedResourceInputs,
    body,
    fingerprint,
    flex_start,
    same_terms,
)
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim
from infra.tiers import Tier

WAITING = ("CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES")  # it has no nodes yet
ENDED = ("FAILED", "SUSPENDING", "SUSPENDED")
OUTPUTS = ("state", "zone", "made", "create_time", "reason")  # of a request, in the state of its resource
AS_WANTED: Outputs = {"differs": [], "lost": [], "unwell": []}  # what only its nodes tell
_ASK_AGAIN = 5
# Of google.rpc: what another zone or another hour may change. Any other is a fault of the request itself.
_PASSING = (1, 2, 4, 8, 10, 13, 14)
_EXHAUSTED, _EXPIRED, _NOT_FOUND = 8, 4, 5


@dataclass(frozen=True)
class Known:
    """What a state says of its request; nothing where it knows none. `metadata`: keys that it has put on nodes.

    on_its_way: it was not seen ACTIVE yet, so a killed `up` may have moved it to the next zone a moment ago.
    """

    zone: str = ""
    made: str = ""
    on_its_way: bool = False
    metadata: frozenset[str] = frozenset()

    @staticmethod
    def of(outputs: Mapping[str, Any]) -> Known:
        made, state = str(outputs.get("made", "")), outputs.get("state")
        keys = frozenset[str](outputs.get("metadata") or ())
        return Known(str(outputs.get("zone", "")), made, bool(made) and state != "ACTIVE", keys)


NOTHING = Known()


@dataclass(frozen=True)
class TpuRequest:
    """A request of ours as it is now."""

    zone: str
    state: str
    create_time: str
    labels: Mapping[str, str]  # as it was asked for
    code: int = 0  # why it is FAILED
    message: str = ""
    by_user: bool = False  # who has suspended it
    spot: bool = False
    reserved: bool = False
    nodes: tuple[Any, ...] = ()  # of one that is ACTIVE, as they were when it was looked at: a write makes them old

    @property
    def made(self) -> str:
        """Which one it is; the same wherever it was moved to."""
        return tpu_ownership.made_of(self.labels)

    @property
    def terms(self) -> str:
        """The fingerprint of its terms."""
        return self.labels.get(MADE_LABEL, "").partition("-")[2]

    @property
    def reason(self) -> str:
        """One clause, where it has ended."""
        if self.state == "FAILED":
            kind = {_EXHAUSTED: "no capacity or quota", _EXPIRED: "expired"}.get(self.code, "")
            return f"{kind}: {self.message}" if kind else self.message or "no reason is given"
        if self.state in ENDED and self.by_user:
            return "somebody has deleted its nodes"
        if self.state in ENDED:
            return "preempted" if self.spot else "the service has taken its nodes back"
        return ""

    @property
    def outputs(self) -> Outputs:
        return {name: getattr(self, name) for name in OUTPUTS} | AS_WANTED

    @property
    def may_pass(self) -> bool:
        """Whether asking again, here or elsewhere, may help."""
        if self.state == "FAILED":
            # `Reservation not found` of what asks for none: the zone has none of these chips for sale.
            return self.code in _PASSING or (self.code == _NOT_FOUND and not self.reserved)
        return not self.by_user


def ensure(context: Context, new: QueuedResourceInputs, known: Known = NOTHING) -> TpuRequest:
    """The request, on the wanted terms: the one that is there, with its nodes patched, or a new one.

    Raises ResourceError where what is there is another state's, unless the stack file asks to take that over.
    """
    claim = new.claim(known.made)
    tpu_wanted.write(new)
    new = dataclasses.replace(new, identity=claim.identity, wanted_in=new.wanted_in if new.identity else "")
    while (request := _there(context, new, known, claim)) is not None:
        if request.state not in ("ACTIVE", *ENDED):
            request = dataclasses.replace(request, nodes=_nodes(context, new, request.zone))
        usable = _is_usable(new, request, claim)
        if claim.wants(request.labels):
            # Not in the state before its nodes say so: a `destroy` would delete what is still the other's.
            taker = dataclasses.replace(new, identity=new.identity or request.made)
            tpu_nodes.patch(context, taker, request.zone, request.nodes)
            context.say(tpu_ownership.taken_over(new.path(request.zone), request.labels, request.create_time))
            return request
        context.accept(new.identifier, request.outputs)
        if usable:
            tpu_nodes.patch(context, new, request.zone, request.nodes, known.metadata)
            return request
        why = f"({request.reason})" if request.reason else "on other terms or with lost nodes"
        context.say(f"{new.name} in {request.zone} is {request.state} {why}: deleting it, then asking again")
        tpu_cleanup.remove(context, new.path(request.zone), request.labels.get(MADE_LABEL, ""))
    full: list[str] = []
    for zone in new.in_order(known.zone):
        try:
            return ask(context, new, zone, uuid.uuid4().hex[:12])
        except FullError as error:
            full.append(str(error))
    raise ResourceError(f"no zone serves it: {'; '.join(full)}")


def find(context: Context, new: QueuedResourceInputs, known: Known = NOTHING) -> TpuRequest | None:
    """This state's own, in whatever zone of the list; another's of that name is passed over.

    What this state has asked for comes before what another `up` of ours has left, as a request that FAILED in a zone
    that was tried before. One that was on its way is waited for: the API may say NOT_FOUND for some seconds of what was
    just asked for.
    """
    claim = new.claim(known.made)
    until = context.now() + (appears_s() if known.on_its_way else 0)
    pauses = retries.polls()
    while True:
        ours: list[TpuRequest] = []
        for zone in new.places(known.zone):
            request = _look(context, new, zone, known)
            if request is not None and claim.owns(request.labels):
                if request.made == known.made:
                    return request
                ours.append(request)
        if ours:
            return ours[0]
        if context.now() >= until:
            return None
        context.report(f"{new.name}: waiting for it to appear")
        context.wait(next(pauses))


def ask(context: Context, new: QueuedResourceInputs, zone: str, made: str) -> TpuRequest:
    """A new request in this zone. Raises FullError where the zone cannot serve it, ResourceError for another state's.

    What a killed `up` of this state has just made is taken where it is on the same terms, and deleted otherwise.
    """
    marks = {MADE_LABEL: f"{made}-{fingerprint(new)}"} | ({STATE_LABEL: new.identity} if new.identity else {})
    wanted = dataclasses.replace(new, labels=new.labels | marks)
    accepted = TpuRequest(zone, "CREATING", "", wanted.labels)
    claim = new.claim(made)
    for _ in range(_ASK_AGAIN):
        started: tpu_api.TpuOperation | None = None
        try:
            started = _create(context, wanted, zone)
        except ThereAlreadyError:
            _clear_the_name(context, new, zone, claim)
        except (SilentError, CancelledError):
            context.accept(new.identifier, accepted.outputs)  # it may be there: the next `up` or `destroy` looks
            raise
        else:
            context.accept(new.identifier, accepted.outputs)
        request = _appeared(context, new, zone, claim, started)
        if request is None:
            continue
        if request.made == made or (request.state not in ENDED and request.terms == fingerprint(new)):
            return request
        tpu_cleanup.remove(context, new.path(zone), request.labels.get(MADE_LABEL, ""))
    raise ResourceError(
        f"{new.path(zone)} comes and goes: somebody else deploys this stack; ask them, then run `pulumi up` again"
    )


# --- parts ---


def _create(context: Context, new: QueuedResourceInputs, zone: str) -> tpu_api.TpuOperation:
    wanted = tpu_api.as_json(body(new, zone))
    version = "v2"
    if new.tier == Tier.FLEX_START:
        wanted, version = flex_start(new, wanted), "v2alpha1"
    return tpu_api.create(context, new.parent(zone), new.name, wanted, str(uuid.uuid4()), version)


def _look(context: Context, new: QueuedResourceInputs, zone: str, known: Known = NOTHING) -> TpuRequest | None:
    """Whatever has the request's name in this zone, ours or not.

    A zone that is closed to the project counts as empty, unless the state says that the request was made in it.
    """
    try:
        resource = tpu_api.get(context, new.path(zone))
    except ClosedError:
        if zone == known.zone:
            raise
        return None
    if resource is None:
        return None
    # They say whose it is and whether it is whole.
    nodes = _nodes(context, new, zone) if tpu_cleanup.state_of(resource) == "ACTIVE" else ()
    return _request(zone, resource, nodes)


def _nodes(context: Context, new: QueuedResourceInputs, zone: str) -> tuple[Any, ...]:
    """Those that are there; an empty answer says nothing, so they are asked for twice."""
    return tuple(tpu_nodes.there(context, new, zone) or tpu_nodes.there(context, new, zone))


def _request(zone: str, resource: Any, nodes: tuple[Any, ...]) -> TpuRequest:
    state, error = resource.state, resource.state.failed_data.error
    return TpuRequest(
        zone=zone,
        state=tpu_cleanup.state_of(resource),
        create_time=resource.create_time.isoformat() if resource.create_time else "",
        labels=tpu_cleanup.labels_of(resource, nodes),
        code=int(error.code),
        message=str(error.message),
        by_user=state.state_initiator.name == "USER",
        spot="spot" in resource,
        reserved=bool(resource.reservation_name),
        nodes=nodes,
    )


def _there(context: Context, new: QueuedResourceInputs, known: Known, claim: StackClaim) -> TpuRequest | None:
    """This stack's request once it is past CREATING. Raises ResourceError for another state's that is not asked for."""
    for zone in new.places(known.zone):
        request = _look(context, new, zone, known)
        if request is None or request.labels.get(STACK_LABEL) != new.stack:
            continue
        if claim.wants(request.labels):
            return request
        if not claim.owns(request.labels):
            raise _not_ours(new, request, claim)
        if request.state in ("CREATING", "DELETING"):
            request = _appeared(context, new, zone, claim)
        if request is not None:
            return request
    return None


def _appeared(
    context: Context,
    new: QueuedResourceInputs,
    zone: str,
    claim: StackClaim,
    started: tpu_api.TpuOperation | None = None,
) -> TpuRequest | None:
    """The request once it is past CREATING; None where it is gone, and FullError or ResourceError where it never was.

    `started` is the operation of its create, if it is ours: then NOT_FOUND is believed only after `appears_s`.
    """
    until = context.now() + appears_s()
    pauses = retries.polls()
    while True:
        request = _look(context, new, zone)
        if request is not None and not claim.owns(request.labels):
            raise _not_ours(new, request, claim)
        if request is None:
            if started is None:
                return None
            _refuse_failed(context, new, zone, tpu_api.operation(context, started.name), context.now() >= until)
        elif request.state not in ("CREATING", "DELETING"):
            return request
        context.report(f"{new.name} in {zone}: {request.state.lower() if request else 'waiting for it to appear'}")
        context.wait(next(pauses))


def _not_ours(new: QueuedResourceInputs, request: TpuRequest, claim: StackClaim) -> ResourceError:
    path = new.path(request.zone)
    return ResourceError(tpu_ownership.refusal(path, request.labels, request.state, request.create_time, claim))


def _refuse_failed(
    context: Context, new: QueuedResourceInputs, zone: str, operation: tpu_api.TpuOperation | None, late: bool
) -> None:
    """What the operation says of a request that is not there. `late`: it should be by now."""
    if operation is not None and operation.code:
        context.accepted = None
        is_reserved = new.tier == Tier.RESERVED or bool(new.reservation)
        if operation.code == _EXHAUSTED or (operation.code == _NOT_FOUND and not is_reserved):
            raise FullError(f"{zone}: {operation.message}")
        raise ResourceError(f"cannot create {new.path(zone)}: {operation.message}; run `pulumi up` again")
    if late and (operation is None or operation.done):  # kept in the state: it may appear yet
        raise ResourceError(
            f"{new.path(zone)} was accepted and is not there {appears_s():.0f} seconds later: somebody has deleted it "
            f"at once, or the API is slow; run `pulumi up` again"
        )


def _clear_the_name(context: Context, new: QueuedResourceInputs, zone: str, claim: StackClaim) -> None:
    """The id is taken, by a request or by a node. Of the latter, delete ours whose request is gone."""
    until = context.now() + appears_s()
    pauses = retries.polls()
    while _look(context, new, zone) is None:  # else _appeared says whose it is
        # Taken, and not to be seen: made a moment ago by an `up` that was killed, or a node has the name.
        nodes = _own_nodes(context, new, zone, claim)
        if context.now() >= until:
            for node in nodes:
                tpu_cleanup.remove_node(context, node.name, node.labels.get(MADE_LABEL, ""))
            return
        context.report(f"{new.name} in {zone}: waiting for it to appear")
        context.wait(next(pauses))


def _own_nodes(context: Context, new: QueuedResourceInputs, zone: str, claim: StackClaim) -> list[Any]:
    """Those that have the name. Raises ResourceError for one that is another's, or whose request is there."""
    nodes = tpu_nodes.there(context, new, zone)
    for node in nodes:
        # Its name has the project's number in it, not the id.
        owner = f"{new.parent(zone)}/queuedResources/{str(node.queued_resource).rpartition('/')[2]}"
        if node.queued_resource and tpu_api.get(context, owner) is not None:
            raise ResourceError(
                f"{node.name} is a node of {owner}, so {new.name} cannot have one of that name; "
                f"{tpu_ownership.OTHER_NAME}, or if that may go: {tpu_ownership.delete_command(owner)}"
            )
        if not claim.owns(node.labels):
            created = tpu_nodes.create_time(node)
            raise ResourceError(tpu_ownership.refusal(node.name, node.labels, node.state.name, created, claim))
    return nodes


def _is_usable(new: QueuedResourceInputs, request: TpuRequest, claim: StackClaim) -> bool:
    """On the wanted terms and alive, but for what can be patched on its nodes.

    Raises ResourceError for another state's that is to be taken over and is not: labels of its nodes say whose it is.
    """
    wanted = fingerprint(new)
    # Without nodes there is nothing to patch, and hosts would start with old metadata.
    alike = same_terms(request.terms, wanted) and (bool(request.nodes) or request.terms == wanted)
    whole = request.state not in ENDED and not (request.state == "ACTIVE" and tpu_nodes.lost(new, request.nodes))
    if claim.wants(request.labels) and not (alike and whole and request.state == "ACTIVE"):
        raise _not_ours(new, request, claim)
    return alike and whole
