"""What runs a stack's pods in a namespace, JobSets and jobs without one: by our label, or of one stack.

For day 2, the stack's guard, `slipway orphans` and `slipway gc`. A name is `<context>/<namespace>/<kind>/<name>`.
Service accounts and scripts cost nothing and go with the state.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from infra.names import OWNER_LABEL, STACK_LABEL
from infra.pods.cluster import Cluster
from infra.pods.job_set import API_VERSION, bundle_of
from infra.targets.billed import Billed
from infra.targets.errors import TargetError

type Found = dict[str, Any]

_GONE_S, _PAUSE_S = 900.0, 1.0  # pods have minutes to save
_KINDS = {"JobSet": (API_VERSION, "jobsets"), "Job": ("batch/v1", "jobs")}


def path(namespace: str, kind: str, name: str = "") -> str:
    """Of the API: one object of the kind, or all of a namespace."""
    version, plural = _KINDS[kind]
    return f"/apis/{version}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def labelled(cluster: Cluster, namespace: str, selector: str) -> list[Found]:
    """JobSets, and jobs that belong to none. Raises TargetError."""
    found: list[Found] = []
    for kind in _KINDS:
        listed = cluster.find(path(namespace, kind), {"labelSelector": selector})
        items: list[Found] = listed["items"] if listed else []  # a cluster may have no JobSet
        found += [each | {"kind": kind} for each in items if not each["metadata"].get("ownerReferences")]
    return found


def billed(place: str) -> Sequence[Billed]:
    """Those of one context and namespace. Raises TargetError where the cluster does not tell."""
    context, _, namespace = place.rpartition("/")
    return [_billed(place, each) for each in labelled(Cluster(context), namespace, OWNER_LABEL)]


def _billed(place: str, found: Found) -> Billed:
    metadata = found["metadata"]
    labels: dict[str, str] = metadata["labels"]
    name = f"{place}/{found['kind']}/{metadata['name']}"
    return Billed(name, labels.get(STACK_LABEL, ""), state(found), tuple(labels.items()), bundle_of(found))


def state(found: Found) -> str:
    """What its controller says of it, in one word."""
    status = found.get("status", {})
    ended = {one["type"] for one in status.get("conditions", []) if one["status"] == "True"}
    for word in ("Failed", "Completed", "Complete"):
        if word in ended:
            return word.lower()
    if found["spec"].get("suspend"):
        return "suspended"
    if found["kind"] == "Job":
        return "running" if status.get("ready", 0) == found["spec"]["completions"] else "waiting"
    ready = sum(job.get("ready", 0) for job in status.get("replicatedJobsStatus", []))
    return "running" if ready == sum(job["replicas"] for job in found["spec"]["replicatedJobs"]) else "waiting"


def remove(names: Collection[str]) -> Sequence[str]:
    """Delete these and wait until they are gone, with their pods."""
    clusters: dict[str, Cluster] = {}
    left: dict[str, tuple[Cluster, str]] = {}
    for name in sorted(names):
        context, namespace, kind, own = name.rsplit("/", 3)
        if context not in clusters:
            clusters[context] = Cluster(context)
        left[name] = clusters[context], path(namespace, kind, own)
        clusters[context].delete(left[name][1])
    until = time.monotonic() + _GONE_S
    while left := {name: one for name, one in left.items() if one[0].find(one[1])}:
        if time.monotonic() > until:
            raise TargetError(f"{min(left)} is not gone after {_GONE_S:.0f} s; its pods may not have ended")
        time.sleep(_PAUSE_S)
    return sorted(names)
