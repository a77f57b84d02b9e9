"""Removing requests and nodes of the Cloud TPU API so that nothing is left: by name, by label.

Owns forced deletion, waiting for it, and looking again afterwards. Refuses to own who asks for it: a request's own
delete, the stack's guard, `slipway orphans`. What carries no label of ours, or another's, is never touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from infra.google_cloud import retries
from infra.google_cloud.api_errors import ClosedError
from infra.names import MADE_LABEL, STACK_LABEL
from infra.providers.resource import Context, ResourceError
from infra.targets.billed import Billed
from infra.targets.tpu_vm.provider import tpu_api, tpu_ownership
from infra.targets.tpu_vm.provider.tpu_inputs import STARTUP_SCRIPT
from infra.vm_hosts.startup_script import bundle_of

_SURE = 2  # an empty list and an answer that says nothing read the same
# How long a request that was just made may be NOT_FOUND: some seconds were seen, by a user of the real service.
_APPEARS_S = 60.0
APPEARS = "SLIPWAY_TPU_APPEARS_S"  # another length of it, for an emulator whose clock is its own
SETTLE_POLL_S = 10.0
# Project and stack of each request that this process has deleted. For any other stack the guard has to wait: a killed
# `up` may have asked for something a moment ago.
_deleted: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Found(Billed):
    """`request` is the name of a node's request, if any."""

    request: str = ""

    @property
    def is_node(self) -> bool:
        return "/nodes/" in self.name

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def made(self) -> str:
        """Its label slipway-made, which no two requests share."""
        return dict(self.labels).get(MADE_LABEL, "")


def appears_s() -> float:
    """Seconds for which NOT_FOUND is not believed of what was just asked for."""
    return float(os.environ.get(APPEARS) or _APPEARS_S)


def request_labels(request: Any) -> dict[str, str]:
    """As it was asked for: a request has no labels of its own, its nodes do."""
    specs = list(request.tpu.node_spec)
    return dict(specs[0].node.labels) if specs else {}


def labels_of(request: Any, nodes: Iterable[Any]) -> dict[str, str]:
    """As it was asked for, and which state has taken it over since, which labels of its nodes say."""
    labels = request_labels(request)
    for node in nodes:
        taken = tpu_ownership.with_taker(labels, node.labels)
        if taken != labels:
            return taken
    return labels


def state_of(request: Any) -> str:
    return str(request.state.state.name)


def labelled(context: Context, parent: str) -> list[Found]:
    """Everything billable below a location that carries our label: requests, then nodes."""
    return [thing for thing in _everything(context, parent) if thing.stack]


def _everything(context: Context, parent: str) -> list[Found]:
    nodes, requests = _listed(context, parent)
    if bool(nodes) != bool(requests):  # an empty answer says nothing, and only both together say whose a thing is
        nodes, requests = _listed(context, parent)
    asked = {tpu_ownership.tail(request.name): request for request in requests}
    nodes_of: dict[str, list[Any]] = {name: [] for name in asked}
    for node in nodes:
        nodes_of.setdefault(tpu_ownership.tail(node.queued_resource), []).append(node)
    labels = {name: labels_of(request, nodes_of[name]) for name, request in asked.items()}
    found = [
        _found(request.name, labels[name], state_of(request), [spec.node for spec in request.tpu.node_spec])
        for name, request in asked.items()
    ]
    for node in nodes:
        of_request = labels.get(tpu_ownership.tail(node.queued_resource), {})
        both = {**of_request, **node.labels}  # of who has taken it over only the request's say
        found.append(_found(node.name, both, node.state.name, [node], node.queued_resource))
    return found


def _listed(context: Context, parent: str) -> tuple[list[Any], list[Any]]:
    """Nodes, then requests: else the node of one that is made meanwhile would look like a node without a request."""
    return tpu_api.nodes(context, parent), tpu_api.listed(context, parent)


def _found(name: str, labels: dict[str, str], state: str, nodes: Iterable[Any], request: str = "") -> Found:
    """nodes: whose script says what its hosts install."""
    script = next((str(node.metadata[STARTUP_SCRIPT]) for node in nodes if STARTUP_SCRIPT in node.metadata), "")
    return Found(name, labels.get(STACK_LABEL, ""), state, tuple(sorted(labels.items())), bundle_of(script), request)


def note_deleted(project: str, stack: str) -> None:
    """The stack's request is gone, and whatever was asked for in its place would be seen by now."""
    _deleted.add((project, stack))


def settle_s(project: str, stack: str) -> float:
    """How long to wait for what a killed `up` may have asked for: 0 once the stack's request was deleted."""
    was_known = (project, stack) in _deleted
    _deleted.discard((project, stack))
    return 0.0 if was_known else appears_s()


def remove_labelled(
    context: Context,
    parents: Iterable[str],
    wanted: Callable[[Found], bool],
    settle_s: float = 0,
    made_in: str = "",
) -> list[str]:
    """Delete what is wanted below each location, and look again until nothing is left. Returns names.

    For `settle_s` more an empty zone is not believed: what was asked for a moment ago may not be listed yet. A location
    that is closed to the project is passed over, but for `made_in`, where something was made: a ResourceError.
    """
    removed: dict[str, None] = {}
    parents = list(parents)
    until = context.now() + settle_s
    while True:
        last = context.now() >= until
        for parent in parents:
            try:
                _remove_listed(context, parent, wanted, removed, _SURE if last else 1)
            except ClosedError as error:
                zone = parent.rpartition("/")[2]
                if parent == made_in:
                    raise ResourceError(
                        f"{zone} has been closed to the project, and what was made there may run on and be billed "
                        f"({error}); have it opened again, then repeat the command"
                    ) from None
                context.say(f"{zone} was not searched, and nothing can be asked for there: {error}")
        if last:
            return list(removed)
        context.report("looking whether something that was asked for a moment ago appears")
        context.wait(min(SETTLE_POLL_S, until - context.now()))


def _remove_listed(
    context: Context, parent: str, wanted: Callable[[Found], bool], removed: dict[str, None], sure: int
) -> None:
    """sure: how many empty answers in a row are believed."""
    empty = 0
    pauses = retries.polls()
    while empty < sure:
        there = _everything(context, parent)
        unwanted = [thing for thing in there if thing.stack and wanted(thing)]
        empty = 0 if unwanted else empty + 1
        requests = {tpu_ownership.tail(thing.name) for thing in there if not thing.is_node}
        for thing in unwanted:
            if not thing.is_node:
                removed[thing.name] = None
                remove(context, thing.name, thing.made)
            elif tpu_ownership.tail(thing.request) not in requests:  # else it goes with its request, or stays with it
                removed[thing.name] = None
                remove_node(context, thing.name, thing.made)
        if unwanted:
            context.wait(next(pauses))  # what is listed may not be found by its name yet


def remove(context: Context, path: str, made: str) -> None:
    """Delete a request with its nodes, and wait until it is gone: one of that name made meanwhile is left alone.

    made: its label slipway-made.
    """
    pauses = retries.polls()
    while (request := tpu_api.get(context, path)) is not None:
        if request_labels(request).get(MADE_LABEL, "") != made:
            return
        if state_of(request) != "DELETING":
            tpu_api.delete(context, path)
        context.report(f"{path.rpartition('/')[2]}: deleting")
        context.wait(next(pauses))


def remove_node(context: Context, name: str, made: str) -> None:
    """The same of a node whose request is gone."""
    parent = name.partition("/nodes/")[0]
    pauses = retries.polls()
    while (name, made) in [(node.name, node.labels.get(MADE_LABEL, "")) for node in tpu_api.nodes(context, parent)]:
        tpu_api.delete(context, name)
        context.report(f"{name.rpartition('/')[2]}: deleting")
        context.wait(next(pauses))
