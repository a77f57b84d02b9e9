"""The flat settings of a script that makes a custom job, read as the job that it makes. Pure.

Owns the keys of the sample launcher of A3 Mega in GoogleCloudPlatform/vertex-ai-samples
(vertex-distributed-training/a3mega, read 2026-11-26), which takes NeMo's recipes. Refuses to judge them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from infra.importing.draft import Draft, shown
from infra.importing.job_text import JobNode

_STRATEGIES = {"spot": "SPOT", "dws": "FLEX_START", "reservation": "STANDARD"}
_DROPPED = {
    "datasetBucket": "hosts read text that `up` has prepared; name it by `slipway:data` (docs/data.md)",
    "recipeName": "names a recipe of NeMo, and stacks train MaxText",
    "jobPrefix": "a job is named after its stack, so that it is found again and made once",
}
_MACHINE = {"machineType": "machineType", "gpuType": "acceleratorType", "gpusPerNode": "acceleratorCount"}
_AS_THEY_ARE = ("region", "projectId")


def is_one(settings: Mapping[str, JobNode]) -> bool:
    return "nodes" in settings and "machineType" in settings and "workerPoolSpecs" not in settings


def as_job(settings: Mapping[str, JobNode], draft: Draft) -> dict[str, JobNode]:
    """The job's fields; each value stays where it stands."""
    machine = {new: settings[old] for old, new in _MACHINE.items() if old in settings}
    reserved = _reservation(settings, draft)
    if reserved is not None:
        machine["reservationAffinity"] = JobNode({"values": JobNode([reserved], reserved.path)}, reserved.path)
    container = {"imageUri": settings["imageUri"]} if "imageUri" in settings else {}
    pool = {"machineSpec": JobNode(machine), "containerSpec": JobNode(container), "replicaCount": settings["nodes"]}
    job = {"workerPoolSpecs": JobNode([JobNode(pool)])}
    strategy, bucket = settings.get("strategy"), settings.get("bucket")
    if strategy and strategy.text:
        named = replace(strategy, value=_STRATEGIES.get(strategy.text, strategy.text))
        job["scheduling"] = JobNode({"strategy": named})
    if bucket and bucket.text:
        place = replace(bucket, value=f"gs://{bucket.text.removeprefix('gs://')}")
        job["baseOutputDirectory"] = JobNode({"outputUriPrefix": place})
    for name, why in _DROPPED.items():
        if name in settings:
            draft.account.dropped(settings[name].paths, shown(settings[name]), why)
    return job | {name: settings[name] for name in _AS_THEY_ARE if name in settings}


def _reservation(settings: Mapping[str, JobNode], draft: Draft) -> JobNode | None:
    """By its full name, of three keys."""
    name, zone, project = (settings.get(key) for key in ("reservationName", "zone", "projectId"))
    strategy = settings["strategy"].text if "strategy" in settings else ""
    if name is not None and name.text and strategy == "reservation" and zone is not None and project is not None:
        draft.account.renamed(zone.paths, shown(zone), "reservation", "a reservation is of a zone")
        return replace(name, value=f"projects/{project.text}/zones/{zone.text}/reservations/{name.text}")
    if zone is not None:
        draft.account.dropped(zone.paths, shown(zone), "Vertex AI looks for machines in all of a region")
    if name is not None and name.text:
        draft.account.dropped(name.paths, shown(name), f"strategy is {strategy or 'none'}, which takes no reservation")
    return None
