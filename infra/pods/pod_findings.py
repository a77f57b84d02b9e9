"""What pods need of the cluster that they are to run in, and whether it is there: for `slipway doctor` and a preview.

The API server admits pods whose secret or volume is not there, and they wait for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from infra.pods import pod_jobs
from infra.pods.cluster import Cluster
from infra.pods.pod_group import PodGroup
from infra.targets.errors import TargetError
from infra.targets.needs import Finding, ok, wrong

_INTERFACES = "networking.gke.io/interfaces"  # of GKE's nodes with several networks


def job_set_finding(cluster: Cluster, namespace: str) -> Finding:
    """Raises TargetError where the cluster does not answer."""
    if cluster.find(pod_jobs.path(namespace, "JobSet")) is not None:
        return ok("JobSet", "the cluster has it")
    return wrong("JobSet", "the cluster does not have it; install it (jobset.sigs.k8s.io), or write `job_kind: job`")


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
