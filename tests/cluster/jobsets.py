"""JobSets as tests declare them, and the official client, which applies them and says what has become of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kubernetes import client, config

from infra.emulators.cluster.nodes import POOL
from tests.engine.project import until

API: Any = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "plural": "jobsets"}
TOLERATED = ({"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"},)


def jobset(name: str, slices: int, hosts: int, tolerations: tuple[dict[str, str], ...] = TOLERATED) -> dict[str, Any]:
    """A slice is a Job of its own, a host a pod of four chips; each slice has a pool to itself."""
    container = {"name": "train", "image": "python:3.12", "resources": {"limits": {"google.com/tpu": "4"}}}
    pod = {"restartPolicy": "Never", "tolerations": list(tolerations), "containers": [container]}
    job = {"parallelism": hosts, "completions": hosts, "backoffLimit": 0, "template": {"spec": pod}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": POOL}},
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [{"name": "slice", "replicas": slices, "template": {"spec": job}}],
        },
    }


def queue(name: str, namespace: str, chips: int) -> list[dict[str, Any]]:
    """What Kueue needs to admit from a namespace up to so many chips at once."""
    quota = {"name": "google.com/tpu", "nominalQuota": chips}
    flavors = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": name, "resources": [quota]}]}
    of_namespace = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return [
        _of_kueue("ResourceFlavor", name, {}),
        _of_kueue("ClusterQueue", name, {"namespaceSelector": of_namespace, "resourceGroups": [flavors]}),
        _of_kueue("LocalQueue", name, {"clusterQueue": name}, namespace=namespace),
    ]


def _of_kueue(kind: str, name: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


@dataclass(frozen=True)
class Namespace:
    """A namespace of a cluster, and what the official client says of it."""

    kubeconfig: Path
    name: str

    def __post_init__(self) -> None:
        until(self._has_account, f"the account of pods in {self.name}")

    @property
    def _api(self) -> client.ApiClient:
        return config.new_client_from_config(str(self.kubeconfig))

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self._api)

    @property
    def _custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self._api)

    def _has_account(self) -> bool:
        """Else the API server refuses pods."""
        return bool(self.core.list_namespaced_service_account(self.name).items)

    def create(self, declared: dict[str, Any]) -> None:
        """An unknown field is refused. Raises kubernetes.client.ApiException."""
        self._custom.create_namespaced_custom_object(
            **API, namespace=self.name, body=declared, field_validation="Strict"
        )

    def waits_in_queue(self) -> list[str]:
        """What Kueue says of each workload that it has not admitted."""
        workloads: Any = self._custom.list_namespaced_custom_object("kueue.x-k8s.io", "v1beta1", self.name, "workloads")
        conditions = [each for one in workloads["items"] for each in one.get("status", {}).get("conditions", ())]
        return [each["message"] for each in conditions if each["reason"] == "Pending"]

    def status(self, name: str) -> dict[str, Any]:
        found = self._custom.get_namespaced_custom_object(**API, namespace=self.name, name=name)
        return cast(dict[str, Any], found).get("status", {})

    def pods(self) -> list[Any]:
        """As the client has them, where every field may be None by its type."""
        return self.core.list_namespaced_pod(self.name).items

    def pools_of_jobs(self) -> dict[str, set[str]]:
        """By the name of each Job: pools of the nodes on which its pods run."""
        nodes: list[Any] = self.core.list_node().items
        of_node = {node.metadata.name: node.metadata.labels[POOL] for node in nodes}
        found = defaultdict[str, set[str]](set)
        for pod in self.pods():
            if pod.status.phase == "Running":
                found[pod.metadata.labels["job-name"]].add(of_node[pod.spec.node_name])
        return dict(found)

    def running(self) -> int:
        return sum(pod.status.phase == "Running" and not pod.metadata.deletion_timestamp for pod in self.pods())

    def reasons(self) -> list[str]:
        """What the scheduler says of each pod that has no node."""
        conditions = [each for pod in self.pods() for each in pod.status.conditions or [] if not pod.spec.node_name]
        return [str(each.message) for each in conditions if each.reason == "Unschedulable"]

    def clear(self) -> None:
        """Delete its JobSets; returns when none of their pods is left."""
        self._custom.delete_collection_namespaced_custom_object(**API, namespace=self.name)
        until(lambda: not self.pods(), f"no pods in {self.name}")
