"""Custom jobs of Vertex AI that carry our label and have not ended, for `slipway orphans` and `slipway gc`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from infra import emulated, hardware
from infra.google_cloud.api_errors import ClosedError, GoneError
from infra.google_cloud.asking import asking
from infra.hardware import Api
from infra.names import OWNER_LABEL, STACK_LABEL
from infra.targets.billed import Billed
from infra.targets.vertex.provider import vertex_api, vertex_cleanup
from infra.targets.vertex.provider.vertex_api import CustomJob
from infra.targets.vertex.provider.vertex_cleanup import ENDED

_LIST_S, _DELETE_S = 300.0, 1800.0  # how long each may take


def billed(project: str, say: Callable[[str], None]) -> Sequence[Billed]:
    """In every region where an accelerator of a custom job is. Raises TargetError where Google does not answer."""
    if _is_another_emulated_cloud():
        return ()
    found: list[Billed] = []
    with asking(say, _LIST_S) as context:
        for region in _regions():
            try:
                jobs = vertex_api.listed(context, f"projects/{project}/locations/{region}")
            except (ClosedError, GoneError):
                continue  # nothing can be asked for there, so nothing runs
            found += [_billed(job) for job in jobs if OWNER_LABEL in job.labels and job.state not in ENDED]
    return found


def remove(names: Collection[str], say: Callable[[str], None]) -> list[str]:
    """Cancel and delete these, and wait until they are gone."""
    with asking(say, _DELETE_S) as context:
        for name in sorted(names):
            vertex_cleanup.remove(context, name)
    return sorted(names)


def _regions() -> list[str]:
    rows = [row for row in (*hardware.rows(), *hardware.emulated()) if Api.VERTEX in row.apis and row.platform != "tpu"]
    return sorted({zone.rpartition("-")[0] for row in rows for zone in row.zones})


def _is_another_emulated_cloud() -> bool:
    """Whether another service of Google's is an emulator's here, or a stand-in's, which has no Vertex AI."""
    if vertex_api.API.service.instead:
        return False
    tpus = os.environ.get(emulated.TPU, "")
    return bool(os.environ.get(emulated.STAND_IN)) or (bool(tpus) and not emulated.is_googles(tpus))


def _billed(job: CustomJob) -> Billed:
    return Billed(
        job.name, job.labels.get(STACK_LABEL, ""), job.state, tuple(sorted(job.labels.items())), bundle_of(job)
    )


def bundle_of(job: CustomJob) -> str:
    """What its containers install."""
    for pool in job.spec.get("workerPoolSpecs", ()):
        for variable in pool.get("containerSpec", {}).get("env", ()):
            if variable.get("name") == "SLIPWAY_BUNDLE":
                return str(variable.get("value", ""))
    return ""
