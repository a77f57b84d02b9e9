"""Requests and nodes of the Cloud TPU API that carry our label, for `slipway orphans`."""

from __future__ import annotations

from collections.abc import Collection

from infra.operate.billed import Billed
from infra.providers.resource import Context
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup


def billed(context: Context, project: str) -> list[Billed]:
    """In every zone of a project. Raises ResourceError where Google does not answer."""
    labelled = tpu_cleanup.labelled(context, f"projects/{project}/locations/{tpu_api.ALL_ZONES}")
    return [Billed(each.name, each.stack, each.state, each.labels) for each in labelled]


def remove(context: Context, names: Collection[str]) -> list[str]:
    """Delete these, and wait until they are gone; returns what was deleted, a request's nodes with it."""
    parents = dict.fromkeys("/".join(name.split("/")[:4]) for name in sorted(names))
    return tpu_cleanup.remove_labelled(context, parents, lambda found: found.name in names)
