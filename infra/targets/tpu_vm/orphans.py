"""Requests and nodes of the Cloud TPU API that carry our label, for `slipway orphans` and `slipway gc`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from infra.google_cloud.asking import asking
from infra.names import STATE_LABEL
from infra.targets.billed import Billed
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup
from infra.targets.tpu_vm.provider.tpu_cleanup import Found
from infra.targets.tpu_vm.provider.tpu_ownership import TAKEN_LABEL, holder_of

_LIST_S, _DELETE_S = 300.0, 1800.0  # how long each may take


def billed(project: str, say: Callable[[str], None]) -> Sequence[Billed]:
    """In every zone of a project. Raises TargetError where Google does not answer."""
    with asking(say, _LIST_S) as context:
        labelled = tpu_cleanup.labelled(context, f"projects/{project}/locations/{tpu_api.ALL_ZONES}")
    return [replace(each, labels=_with_holder(each)) for each in labelled]


def _with_holder(thing: Found) -> tuple[tuple[str, str], ...]:
    """Its labels, with the state that has it now."""
    labels = {key: value for key, value in thing.labels if key != TAKEN_LABEL}
    holder = holder_of(dict(thing.labels))
    return tuple((labels | ({STATE_LABEL: holder} if holder else {})).items())


def remove(names: Collection[str], say: Callable[[str], None]) -> list[str]:
    """Delete these, and wait until they are gone; returns what was deleted, a request's nodes with it."""
    parents = dict.fromkeys("/".join(name.split("/")[:4]) for name in sorted(names))
    with asking(say, _DELETE_S) as context:
        return tpu_cleanup.remove_labelled(context, parents, lambda found: found.name in names)
