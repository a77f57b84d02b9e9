"""What a stack of target `kubernetes` needs of this machine and its cluster, for `slipway doctor`. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError
from infra.pods.cluster import Cluster
from infra.pods.pod_findings import Needed, job_set_finding, named_by, networks_named_by
from infra.pods.pod_group import JobKind
from infra.targets.errors import TargetError
from infra.targets.kubernetes import s3_rules
from infra.targets.kubernetes.settings import KubernetesSettings
from infra.targets.needs import Finding, not_asked, ok, wrong
from infra.targets.places import in_s3

_PATIENCE_S = 20.0


def findings(settings: KubernetesSettings) -> Sequence[Finding]:
    return (*_of_cluster(settings), *_of_s3(settings))


def _of_s3(settings: KubernetesSettings) -> Iterator[Finding]:
    """Whether this machine may push where pods read."""
    if problem := s3_rules.other_server(settings.s3, os.environ):
        yield wrong("s3", problem)
        return
    for place in sorted({settings.places.artifacts, settings.text_place if settings.sources else ""}):
        if in_s3(place):
            try:
                open_store(place, _PATIENCE_S).has("wheelhouses/any")
            except StoreError as error:
                yield wrong("s3", str(error))
            else:
                yield ok("s3", f"{place} is there")


def _of_cluster(settings: KubernetesSettings) -> Sequence[Finding]:
    try:
        cluster = Cluster(settings.context)
        version = cluster.get("/version")["gitVersion"]
    except TargetError as error:
        return (wrong("cluster", str(error)), not_asked("namespace", "the cluster cannot be asked"))
    reached = ok("cluster", f"context {settings.context} leads to Kubernetes {version}")
    try:
        return (reached, *_of_namespace(cluster, settings))
    except TargetError as error:
        return (reached, wrong("namespace", str(error)))


def _of_namespace(cluster: Cluster, settings: KubernetesSettings) -> Iterator[Finding]:
    place = f"/api/v1/namespaces/{settings.namespace}"
    if cluster.find(place) is None:
        yield wrong(
            "namespace", f"there is no {settings.namespace}; run: kubectl create namespace {settings.namespace}"
        )
        return
    yield ok("namespace", f"{settings.namespace} is there")
    if settings.job_kind is JobKind.JOBSET:
        yield job_set_finding(cluster, settings.namespace, settings.installs_job_set)
    for each in named_by(settings.group):
        if each.kind == "Secret":
            yield _secret(each, cluster.is_there(each.path))
    if absent := [each for each in networks_named_by(settings.group) if cluster.is_there(each.path) is False]:
        yield wrong("networks", absent[0].absent)
    if settings.shared_claim:
        claim = cluster.find(f"{place}/persistentvolumeclaims/{settings.shared_claim}")
        yield _claim(settings.shared_claim, claim)
    yield _nodes(cluster, settings)


def _secret(each: Needed, is_there: bool | None) -> Finding:
    if is_there is None:
        return not_asked("secret", f"you may not see whether {each.namespace} has {each.name}")
    return ok("secret", f"{each.name} is there") if is_there else wrong("secret", each.absent)


def _claim(name: str, found: dict[str, Any] | None) -> Finding:
    if found is None:
        return wrong("shared", f"there is no PersistentVolumeClaim {name}")
    modes: list[str] = found["spec"]["accessModes"]
    if "ReadWriteMany" not in modes:
        return wrong("shared", f"{name} is {', '.join(modes)}; pods on several nodes need ReadWriteMany")
    return ok("shared", f"{name} is there, ReadWriteMany")


def _nodes(cluster: Cluster, settings: KubernetesSettings) -> Finding:
    """Whether as many nodes as there are pods could ever have them, whatever runs there now."""
    asked = settings.group
    selector = ",".join(f"{key}={value}" for key, value in asked.node_labels.items())
    nodes = cluster.get("/api/v1/nodes", {"labelSelector": selector} if selector else {})["items"]
    fit = [
        node
        for node in nodes
        if all(int(node["status"]["allocatable"].get(name, 0)) >= count for name, count in asked.resources.items())
    ]
    each = ", ".join(f"{count} {name}" for name, count in asked.resources.items())
    which = f"nodes with {selector}" if selector else "nodes"
    said = f"{len(fit)} of {len(nodes)} {which} have {each}; the run wants {asked.hosts}"
    if len(fit) < asked.hosts:
        return wrong("nodes", f"{said}; pods wait until the cluster has more")
    return ok("nodes", said)
