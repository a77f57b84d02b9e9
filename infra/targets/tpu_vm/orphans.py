"""Requests and nodes of the Cloud TPU API that carry our label, for `slipway orphans` and `slipway gc`."""

from __future__ import annotations

from collections.abc import Collection

from infra.names import STATE_LABEL
from infra.operate.billed import Billed
from infra.providers.resource import Context
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup
from infra.targets.tpu_vm.provider.tpu_cleanup import Found
from infra.targets.tpu_vm.provider.tpu_ownership import TAKEN_LABEL, holder_of
from infra.targets.tpu_vm.startup_script import software_of


def billed(context: Context, project: str) -> list[Billed]:
    """In every zone of a project. Raises ResourceError where Google does not answer."""
    labelled = tpu_cleanup.labelled(context, f"projects/{project}/locations/{tpu_api.ALL_ZONES}")
    return [
        Billed(each.name, each.stack, each.state, _with_holder(each), *software_of(each.script)) for each in labelled
    ]


def _with_holder(thing: Found) -> tuple[tuple[str, str], ...]:
    """Its labels, with the state that has it now."""
    labels = {key: value for key, value in thing.labels if key != TAKEN_LABEL}
    holder = holder_of(dict(thing.labels))
    return tuple((labels | ({STATE_LABEL: holder} if holder else {})).items())


def remove(context: Context, names: Collection[str]) -> list[str]:
    """Delete these, and wait until they are gone; returns what was deleted, a request's nodes with it."""
    parents = dict.fromkeys("/".join(name.split("/")[:4]) for name in sorted(names))
    return tpu_cleanup.remove_labelled(context, parents, lambda found: found.name in names)
