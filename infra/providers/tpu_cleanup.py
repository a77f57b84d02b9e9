"""Removing requests and nodes of the Cloud TPU API so that nothing is left: by name, by label.

Owns forced deletion, waiting for it, and looking again afterwards. Refuses to own who asks for it: a request's own
delete, the stack's guard, `slipway orphans`. What carries no label of ours, or another's, is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from infra.names import STACK_LABEL
from infra.providers import tpu_api
from infra.providers.resource import Context

_SURE = 2  # an empty list and an answer that says nothing read the same


@dataclass(frozen=True)
class Found:
    """Something billable with our label. `request` is the name of a node's request, if any."""

    name: str
    stack: str  # its label
    state: str
    labels: tuple[tuple[str, str], ...]
    request: str = ""

    @property
    def is_node(self) -> bool:
        return "/nodes/" in self.name

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]


def request_labels(request: Any) -> dict[str, str]:
    """As it was asked for: a request has no labels of its own, its nodes do."""
    specs = list(request.tpu.node_spec)
    return dict(specs[0].node.labels) if specs else {}


def stack_label(request: Any) -> str:
    return request_labels(request).get(STACK_LABEL, "")


def labelled(context: Context, parent: str) -> list[Found]:
    """Everything billable below a location that carries our label: requests, then nodes."""
    found: list[Found] = []
    for one in tpu_api.listed(context, parent):
        labels = request_labels(one)
        found.append(Found(one.name, labels.get(STACK_LABEL, ""), one.state.state.name, tuple(sorted(labels.items()))))
    for node in tpu_api.nodes(context, parent):
        labels = dict(node.labels)
        stack = labels.get(STACK_LABEL, "")
        found.append(Found(node.name, stack, node.state.name, tuple(sorted(labels.items())), node.queued_resource))
    return [one for one in found if one.stack]


def remove_labelled(context: Context, parents: Iterable[str], wanted: Callable[[Found], bool]) -> list[str]:
    """Delete what is wanted below each location, and look again until nothing is left. Returns names."""
    removed: dict[str, None] = {}
    for parent in parents:
        empty = 0
        while empty < _SURE:
            found = [one for one in labelled(context, parent) if wanted(one)]
            empty = 0 if found else empty + 1
            for one in found:
                if one.is_node:
                    if one.request not in removed:
                        removed[one.name] = None
                        remove_node(context, one.name)
                else:
                    removed[one.name] = None
                    remove(context, one.name)
    return list(removed)


def remove(context: Context, path: str) -> None:
    """Delete a request with its nodes, and wait until it is gone."""
    pauses = tpu_api.polls()
    while (found := tpu_api.get(context, path)) is not None:
        state = str(found.state.state.name)
        if state != "DELETING":
            tpu_api.delete(context, path)
        context.report(f"{path.rpartition('/')[2]}: deleting")
        context.wait(next(pauses))


def remove_node(context: Context, name: str) -> None:
    """Delete a node whose request is gone, and wait until it is gone too."""
    parent = name.partition("/nodes/")[0]
    pauses = tpu_api.polls()
    while any(node.name == name for node in tpu_api.nodes(context, parent)):
        tpu_api.delete_node(context, name)
        context.report(f"{name.rpartition('/')[2]}: deleting")
        context.wait(next(pauses))
