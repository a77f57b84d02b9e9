"""What pods need of the cluster that they are to run in, and whether it is there: for `slipway doctor` and a preview.

The API server admits pods whose secret or volume is not there, and they wait for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from infra.pods import job_set_release, pod_jobs
from infra.pods.cluster import Cluster
from infra.pods.pod_group import Manifest, PodGroup
from infra.targets.errors import TargetError
from infra.targets.needs import Finding, ok, wrong

_TODO = (
    f"write `slipway:install_jobset: true`, and `up` installs {job_set_release.VERSION}; or have it installed: "
    f"{job_set_release.BY_HAND} (docs/kubernetes.md says with which image); or write `slipway:job_kind: job`"
)
_INTERFACES = "networking.gke.io/interfaces"  # of GKE's nodes with several networks


def job_set_finding(cluster: Cluster, namespace: str, installs: bool) -> Finding:
    """installs: whether `up` brings it. Raises TargetError where the cluster does not answer."""
    if _has_job_set(cluster, namespace):
        return ok("JobSet", "the cluster has it")
    if installs:
        return ok("JobSet", f"the cluster does not have it; `up` installs {job_set_release.VERSION}")
    return wrong("JobSet", f"the cluster does not have it; {_TODO}")


def check_job_set(cluster: Cluster, namespace: str, job_set: Manifest, installs: bool) -> bool:
    """Whether the cluster has JobSet. Raises TargetError where it has none and gets none, or one that is too old."""
    if not _has_job_set(cluster, namespace):
        if not installs:
            raise TargetError(f"the cluster of context '{cluster.context}' has no JobSet; {_TODO}")
        return False
    if definition := cluster.look(job_set_release.DEFINITION):
        controller = cluster.look(job_set_release.CONTROLLER)
        fields = job_set_release.used_fields(job_set)
        if problem := job_set_release.too_old(definition, controller, fields):
            raise TargetError(f"the cluster of context '{cluster.context}': {problem}")
    return True


def _has_job_set(cluster: Cluster, namespace: str) -> bool:
    return cluster.find(pod_jobs.path(namespace, "JobSet"), {"limit": "1"}) is not None


@dataclass(frozen=True)
class Needed:
    """An object that pods name. namespace: empty of one of the cluster's networks. todo: what makes one."""

    namespace: str
    kind: str
    name: str
    todo: str

    @property
    def path(self) -> str:
        if not self.namespace:
            return f"/apis/networking.gke.io/v1/networks/{self.name}"
        return f"/api/v1/namespaces/{self.namespace}/{self.kind.lower()}s/{self.name}"

    @property
    def absent(self) -> str:
        where = f"namespace {self.namespace}" if self.namespace else "the cluster"
        return f"{where} has no {self.kind} {self.name}: {self.todo}"


def named_by(group: PodGroup) -> Iterator[Needed]:
    for name in sorted(set(group.pull_secrets)):
        todo = f"kubectl create secret docker-registry {name} --namespace {group.namespace} --docker-server=..."
        yield Needed(group.namespace, "Secret", name, todo)
    for name in sorted({one.partition("/")[0] for one in group.secrets.values()} - set(group.pull_secrets)):
        todo = f"kubectl create secret generic {name} --namespace {group.namespace} --from-literal=..."
        yield Needed(group.namespace, "Secret", name, todo)
    for name in sorted(set(group.mounts.values())):
        yield Needed(group.namespace, "PersistentVolumeClaim", name, "make one with access mode ReadWriteMany")


def networks_named_by(group: PodGroup) -> Iterator[Needed]:
    """Of the network cards that pods have beside the first, in a cluster whose nodes somebody else has made."""
    interfaces: list[dict[str, str]] = json.loads(group.beside.annotations.get(_INTERFACES, "[]"))
    todo = "target gke-gpu makes them with its clusters, and docs/a3.md says what they are"
    for name in (each["network"] for each in interfaces if each["network"] != "default"):
        yield Needed("", "Network", name, todo)


def check_named_objects(cluster: Cluster, group: PodGroup) -> None:
    """Raises TargetError for the first that is not there. What whoever asks may not know is passed over."""
    if cluster.is_there(f"/api/v1/namespaces/{group.namespace}") is False:
        return  # of which the API server has its own sentence
    for each in (*named_by(group), *networks_named_by(group)):
        if cluster.is_there(each.path) is False:
            raise TargetError(f"the cluster of context '{cluster.context}': {each.absent}")
