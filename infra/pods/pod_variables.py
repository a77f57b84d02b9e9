"""What the training container of a stack's pods finds in its environment, for `slipway env`. Pure.

Owns what a preview cannot know of it and how that reads. Refuses to own the values (job_set.py, gpu_networks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from infra.pods.job_set import environment
from infra.pods.pod_terms import PodTerms
from infra.targets.host_variables import HostVariable

_WHEN_UP = "<by its hash>"


def variables(settings: PodTerms) -> Sequence[HostVariable]:
    """Of each pod, in the order of its manifest."""
    known = {each.name: each for each in settings.gpu_variables}
    found: list[HostVariable] = []
    for one in environment(replace(settings.group, bundle=_WHEN_UP), _WHEN_UP):
        name = str(one["name"])
        row = known.get(name)
        value = str(one.get("value") or _elsewhere(one))
        found.append(HostVariable(name, value, row.why, row.source, row.holds) if row else HostVariable(name, value))
    return found


def _elsewhere(one: dict[str, Any]) -> str:
    """Of a variable whose value Kubernetes fills in."""
    given: dict[str, Any] = one.get("valueFrom", {})
    if "secretKeyRef" in given:
        return f"<secret {given['secretKeyRef']['name']}/{given['secretKeyRef']['key']}>"
    return f"<{given.get('fieldRef', {}).get('fieldPath', '')}>"
