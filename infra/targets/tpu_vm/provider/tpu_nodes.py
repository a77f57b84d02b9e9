"""The nodes of a request: which are there, which are lost or unwell, and putting back what differs on them.

Owns what the API changes on nodes in place. Refuses to own the request (tpu_request.py) and what their hosts say
(slice_ready_resource.py). A node's metadata is one map that others write too: gcloud puts `ssh-keys` there, and an
update replaces the whole map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from infra.google_cloud import retries
from infra.google_cloud.api_errors import BusyError
from infra.names import MADE_LABEL, STATE_LABEL
from infra.providers.resource import Context, ResourceError
from infra.targets.tpu_vm.provider import tpu_api
from infra.targets.tpu_vm.provider.tpu_inputs import PATCHED, STARTUP_SCRIPT, QueuedResourceInputs
from infra.targets.tpu_vm.provider.tpu_ownership import tail

# UNKNOWN is a node whose repair has failed. One that is REPAIRING or under maintenance comes back by itself.
LOST = ("PREEMPTED", "TERMINATED", "STOPPED", "STOPPING", "DELETING", "HIDDEN", "UNKNOWN")
_WELL_STATES = ("READY", "CREATING", "STARTING", "RESTARTING")
_WELL_HEALTH = ("HEALTHY", "HEALTH_UNSPECIFIED")
_PATCH_AGAIN = 20  # times that somebody else's update is waited for


def there(context: Context, new: QueuedResourceInputs, zone: str) -> list[Any]:
    """The request's nodes that are there."""
    names = {tail(f"{new.parent(zone)}/nodes/{identifier}") for identifier in new.node_ids}
    return [node for node in tpu_api.nodes(context, new.parent(zone)) if tail(node.name) in names]


def identifier(node: Any) -> str:
    return str(node.name).rpartition("/")[2]


def create_time(node: Any) -> str:
    return node.create_time.isoformat() if node.create_time else ""


def lost(new: QueuedResourceInputs, nodes: Iterable[Any]) -> list[str]:
    """Nodes that an ACTIVE request should have and has not. Pure."""
    alive = {identifier(node) for node in nodes if node.state.name not in LOST}
    return [name for name in new.node_ids if name not in alive]


def unwell(nodes: Iterable[Any]) -> list[str]:
    """`q-0 is REPAIRING`: nodes that are neither lost nor well, which the service mends itself. Pure."""
    sentences: list[str] = []
    for node in nodes:
        state, health = node.state.name, node.health.name
        if state in LOST:
            continue
        if state not in _WELL_STATES:
            sentences.append(f"{identifier(node)} is {state}")
        elif state == "READY" and health not in _WELL_HEALTH:
            sentences.append(f"{identifier(node)} is {health}")
    return sentences


def differences(new: QueuedResourceInputs, nodes: Iterable[Any]) -> list[str]:
    """`labels of q-0`: fields of nodes that somebody else has changed, or that no update has reached. Pure."""
    return [f"{field} of {identifier(node)}" for node in nodes for field in _different(new, node, frozenset())]


def patch(
    context: Context,
    new: QueuedResourceInputs,
    zone: str,
    nodes: Iterable[Any],
    before: frozenset[str] = frozenset(),
) -> None:
    """Put back what differs on nodes that were just seen.

    before: keys of metadata that the last update has written; those not wanted now go.
    """
    dropped = before - set(new.metadata)
    pauses = retries.polls()
    for turn in range(_PATCH_AGAIN):
        different = [node for node in nodes if _different(new, node, dropped)]
        try:
            for node in different:
                _patch_one(context, new, node, dropped)
        except BusyError:
            if turn == _PATCH_AGAIN - 1:
                raise
            context.wait(next(pauses))
            nodes = there(context, new, zone)  # with the map that the other update leaves
        else:
            return


def _patch_one(context: Context, new: QueuedResourceInputs, node: Any, dropped: frozenset[str]) -> None:
    fields = _different(new, node, dropped)
    context.report(f"updating {', '.join(fields)} of {identifier(node)}")
    operation = tpu_api.update_node(context, {"name": node.name} | _wanted(new, node, dropped), fields)
    pauses = retries.polls()
    while not operation.done:
        context.wait(next(pauses))
        answer = tpu_api.operation(context, operation.name)
        if answer is None:
            break
        operation = answer
    if operation.code:
        raise ResourceError(f"cannot update {node.name}: {operation.message}; run `pulumi up` again")


def _different(new: QueuedResourceInputs, node: Any, dropped: frozenset[str]) -> list[str]:
    wanted = _wanted(new, node, dropped)
    is_now: Mapping[str, Any] = {
        "labels": dict(node.labels),
        "tags": list(node.tags),
        "metadata": dict(node.metadata),
        "description": node.description,
    }
    return [field for field in PATCHED if wanted[field] != is_now[field]]


def _wanted(new: QueuedResourceInputs, node: Any, dropped: frozenset[str]) -> dict[str, Any]:
    """Labels of the request's own and of Google stay, and whatever metadata others have put there.

    The script that a request was made with stays while it names the same bundle. The state's label is what makes a
    request that was taken over this state's; a state of 0.1.0 leaves it as it is.
    """
    kept = (MADE_LABEL,) if new.identity else (MADE_LABEL, STATE_LABEL)
    not_ours = {key: value for key, value in node.labels.items() if key in kept or key.startswith("goog")}
    others = {key: value for key, value in node.metadata.items() if key not in dropped}
    state = {STATE_LABEL: new.identity} if new.identity else {}
    as_asked = new.metadata_asking
    is_as_asked = node.metadata.get(STARTUP_SCRIPT) == as_asked.get(STARTUP_SCRIPT)
    return {
        "labels": {**new.labels, **state, **not_ours},
        "tags": new.tags,
        "metadata": {**others, **(as_asked if is_as_asked else new.metadata)},
        "description": new.description,
    }
