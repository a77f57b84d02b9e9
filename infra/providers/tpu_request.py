"""One request of the Cloud TPU API, wherever it lies: ask for it once, find it again, see what has become of it.

Owns that there is one and not two: it is found by name and label in every zone of the list before it is asked for, and
somebody else's of that name is refused. Refuses to own waiting for chips (slice_ready.py) and deletion
(tpu_cleanup.py).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.names import STACK_LABEL
from infra.providers import tpu_api, tpu_cleanup
from infra.providers.resource import CancelledError, Context, Outputs, ResourceError
from infra.providers.tpu_inputs import MADE_LABEL, PATCHED, QueuedResourceInputs, body, fingerprint, same_terms

ENDED = ("FAILED", "SUSPENDING", "SUSPENDED")
_LOST = ("PREEMPTED", "TERMINATED", "STOPPED", "STOPPING", "DELETING", "HIDDEN")
OUTPUTS = ("state", "zone", "made", "create_time", "reason")  # of a request, in the state of its resource
AS_WANTED: Outputs = {"differs": [], "lost": []}  # what only its nodes tell
_ASK_AGAIN = 5
# Of google.rpc: what another zone or another hour may change. Any other is a fault of the request itself.
_PASSING = (1, 2, 4, 8, 10, 13, 14)
_EXHAUSTED, _EXPIRED = 8, 4


@dataclass(frozen=True)
class Request:
    """A request of ours as it is now."""

    zone: str
    state: str
    create_time: str
    made: str  # the same wherever it was moved to
    fingerprint: str
    code: int = 0  # why it is FAILED
    message: str = ""
    by_user: bool = False  # who has suspended it
    spot: bool = False

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
        return self.code in _PASSING if self.state == "FAILED" else not self.by_user


def ensure(context: Context, new: QueuedResourceInputs, first: str = "") -> Request:
    """The request, on the wanted terms: the one that is there, with its nodes patched, or a new one."""
    found = find(context, new, first)
    while found is not None:
        context.accept(new.identifier, found.outputs)
        found = _appeared(context, new, found.zone, found)
        if found is not None and _is_usable(context, new, found):
            return found
        if found is not None:
            context.say(f"{new.name} in {found.zone} is {_why_not(found)}: deleting it, then asking again")
            tpu_cleanup.remove(context, new.path(found.zone))
        found = find(context, new, first)
    full: list[str] = []
    for zone in new.in_order(first):
        try:
            return ask(context, new, zone, uuid.uuid4().hex[:12])
        except tpu_api.FullError as error:
            full.append(str(error))
    raise ResourceError(f"no zone serves it: {'; '.join(full)}")


def find(context: Context, new: QueuedResourceInputs, first: str = "") -> Request | None:
    """Ours, in whatever zone of the list; somebody else's of that name is passed over."""
    for zone in new.places(first):
        found = tpu_api.get(context, new.path(zone))
        if found is not None and tpu_cleanup.stack_label(found) == new.stack:
            return _request(zone, found)
    return None


def ask(context: Context, new: QueuedResourceInputs, zone: str, made: str) -> Request:
    """A new request in this zone. Raises FullError where the zone cannot serve it, ResourceError for somebody else's.

    What a killed `up` has just made on the same terms is taken as it is.
    """
    label = f"{made}-{fingerprint(new)}"
    wanted = body(dataclasses.replace(new, labels={**new.labels, MADE_LABEL: label}), zone)
    asked = Request(zone, "CREATING", "", made, fingerprint(new))
    for _ in range(_ASK_AGAIN):
        started: tpu_api.Operation | None = None
        try:
            started = tpu_api.create(context, new.parent(zone), new.name, wanted, str(uuid.uuid4()))
        except tpu_api.ThereAlreadyError:
            _clear_the_name(context, new, zone)
        except (tpu_api.SilentError, CancelledError):
            context.accept(new.identifier, asked.outputs)  # it may be there: the next `up` or `destroy` looks
            raise
        else:
            context.accept(new.identifier, asked.outputs)
        found = _appeared(context, new, zone, None, started)
        if found is None:
            continue
        if found.made == made or (found.state not in ENDED and found.fingerprint == fingerprint(new)):
            return found
        tpu_cleanup.remove(context, new.path(zone))
    raise ResourceError(
        f"{new.path(zone)} comes and goes: somebody else deploys this stack; ask them, then run `pulumi up` again"
    )


def nodes(context: Context, new: QueuedResourceInputs, zone: str) -> list[Any]:
    """The request's nodes that are there."""
    names = {f"{new.parent(zone)}/nodes/{identifier}" for identifier in new.node_ids}
    return [node for node in tpu_api.nodes(context, new.parent(zone)) if node.name in names]


def differences(new: QueuedResourceInputs, there: list[Any]) -> list[str]:
    """`labels of q-0`: fields of nodes that somebody else has changed, or that no update has reached. Pure."""
    return [f"{field} of {node.name.rpartition('/')[2]}" for node in there for field in _different(new, node)]


def lost(new: QueuedResourceInputs, there: list[Any]) -> list[str]:
    """Nodes that an ACTIVE request should have and has not. Pure."""
    alive = {node.name.rpartition("/")[2] for node in there if node.state.name not in _LOST}
    return [identifier for identifier in new.node_ids if identifier not in alive]


# --- parts ---


def _request(zone: str, found: Any) -> Request:
    made, _, marked = tpu_cleanup.request_labels(found).get(MADE_LABEL, "").partition("-")
    state, error = found.state, found.state.failed_data.error
    return Request(
        zone=zone,
        state=str(state.state.name),
        create_time=found.create_time.isoformat() if found.create_time else "",
        made=made,
        fingerprint=marked,
        code=int(error.code),
        message=str(error.message),
        by_user=state.state_initiator.name == "USER",
        spot="spot" in found,
    )


def _appeared(
    context: Context,
    new: QueuedResourceInputs,
    zone: str,
    seen: Request | None,
    started: tpu_api.Operation | None = None,
) -> Request | None:
    """The request once it is past CREATING; None where it is gone, and FullError or ResourceError where it never was.

    `seen` is what was just read, `started` the operation of its create, if it is ours.
    """
    pauses = tpu_api.polls()
    while True:
        found = seen or _ours(context, new, zone)
        seen = None
        if found is None:
            if started is None:
                return None
            _refuse_failed(context, new, zone, tpu_api.operation(context, started.name))
        elif found.state not in ("CREATING", "DELETING"):
            return found
        context.report(f"{new.name} in {zone}: {found.state.lower() if found else 'waiting for it to appear'}")
        context.wait(next(pauses))


def _ours(context: Context, new: QueuedResourceInputs, zone: str) -> Request | None:
    found = tpu_api.get(context, new.path(zone))
    if found is None:
        return None
    label = tpu_cleanup.stack_label(found)
    if label != new.stack:
        raise _not_ours(new.path(zone), label)
    return _request(zone, found)


def _not_ours(path: str, label: str) -> ResourceError:
    return ResourceError(
        f"{path} is there already and not this stack's (label {STACK_LABEL}: {label or 'none'}); "
        f"delete it, or give the stack another `prefix`"
    )


def _refuse_failed(context: Context, new: QueuedResourceInputs, zone: str, operation: tpu_api.Operation | None) -> None:
    """What the operation says of a request that is not there."""
    if operation is not None and not operation.done:
        return
    context.accepted = None
    if operation is not None and operation.code == _EXHAUSTED:
        raise tpu_api.FullError(f"{zone}: {operation.message}")
    why = operation.message if operation is not None and operation.code else "it was deleted at once by somebody else"
    raise ResourceError(f"cannot create {new.path(zone)}: {why}; run `pulumi up` again")


def _clear_the_name(context: Context, new: QueuedResourceInputs, zone: str) -> None:
    """The id is taken, by a request or by a node. Of the latter, delete ours that no request owns."""
    _ours(context, new, zone)
    for node in nodes(context, new, zone):
        label = dict(node.labels).get(STACK_LABEL, "")
        if label != new.stack:
            raise _not_ours(node.name, label)
        if node.queued_resource != new.path(zone):
            tpu_cleanup.remove_node(context, node.name)


def _is_usable(context: Context, new: QueuedResourceInputs, found: Request) -> bool:
    """On the wanted terms and alive; its nodes, if there are any, are then as wanted too."""
    wanted = fingerprint(new)
    if found.state in ENDED or not same_terms(found.fingerprint, wanted):
        return False
    there = nodes(context, new, found.zone)
    if found.state == "ACTIVE" and lost(new, there):
        return False
    if not there:
        return found.fingerprint == wanted  # without nodes there is nothing to patch, and hosts would start old code
    patch(context, new, there)
    return True


def _why_not(found: Request) -> str:
    return f"{found.state} ({found.reason})" if found.reason else f"{found.state} on other terms or with lost nodes"


def patch(context: Context, new: QueuedResourceInputs, there: list[Any]) -> None:
    """Put back what differs on nodes that are there."""
    for node in there:
        fields = _different(new, node)
        if not fields:
            continue
        context.report(f"updating {', '.join(fields)} of {node.name.rpartition('/')[2]}")
        operation = tpu_api.update_node(context, {"name": node.name} | _wanted(new, node), fields)
        pauses = tpu_api.polls()
        while not operation.done:
            context.wait(next(pauses))
            now = tpu_api.operation(context, operation.name)
            if now is None:
                break
            operation = now
        if operation.code:
            raise ResourceError(f"cannot update {node.name}: {operation.message}; run `pulumi up` again")


def _different(new: QueuedResourceInputs, node: Any) -> list[str]:
    wanted = _wanted(new, node)
    there: Mapping[str, Any] = {
        "labels": dict(node.labels),
        "tags": list(node.tags),
        "metadata": {key: value for key, value in node.metadata.items() if key in new.metadata},
        "description": node.description,
    }
    return [field for field in PATCHED if wanted[field] != there[field]]


def _wanted(new: QueuedResourceInputs, node: Any) -> dict[str, Any]:
    """Labels of the request's own and of Google stay."""
    kept = {key: value for key, value in node.labels.items() if key == MADE_LABEL or key.startswith("goog")}
    return {
        "labels": {**new.labels, **kept},
        "tags": new.tags,
        "metadata": new.metadata,
        "description": new.description,
    }
