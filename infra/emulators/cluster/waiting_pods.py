"""Which autoscaled pools get their nodes, because pods wait for nodes like theirs.

Owns the choice: a job's pods that nothing can run get a pool without nodes whose labels and taints suit them, all of
its nodes at once, as GKE does it for slices. Pure. Refuses to own resources that pods ask for beyond that, and to take
nodes away again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from infra.emulators.cluster import nodes
from infra.emulators.cluster.built_programs import Manifest
from infra.emulators.cluster.nodes import NodePool

_JOB = "batch.kubernetes.io/job-name"


def pools_for(pods: Iterable[Manifest], empty: Sequence[NodePool]) -> list[str]:
    """Names of the pools among `empty` that get nodes; one for each job that waits."""
    left = list(empty)
    chosen: list[str] = []
    for pod in _one_of_each_job(pods):
        pool = next((each for each in left if _suits(pod, each)), None)
        if pool is not None:
            left = [each for each in left if each.name != pool.name]
            chosen.append(pool.name)
    return chosen


def _one_of_each_job(pods: Iterable[Manifest]) -> list[Manifest]:
    jobs: dict[tuple[str, str], Manifest] = {}
    for pod in pods:
        if _is_unschedulable(pod):
            metadata = pod["metadata"]
            job = metadata.get("labels", {}).get(_JOB) or metadata["name"]
            jobs.setdefault((metadata["namespace"], job), pod)
    return list(jobs.values())


def _is_unschedulable(pod: Manifest) -> bool:
    conditions: list[Manifest] = pod.get("status", {}).get("conditions") or []
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def _suits(pod: Manifest, pool: NodePool) -> bool:
    spec, labels = cast(Mapping[str, Any], pod["spec"]), nodes.labels(pool)
    selector = cast(Mapping[str, str], spec.get("nodeSelector") or {})
    selected = all(labels.get(key) == value for key, value in selector.items())
    tolerations = cast(list[Manifest], spec.get("tolerations") or [])
    return selected and all(any(_tolerates(each, taint) for each in tolerations) for taint in nodes.taints(pool))


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value")) == (taint["key"], taint.get("value"))
