"""`Hosts` of every stack of pods: a pod is a host, and why it does not run is what the API server says of it.

How far its training is, the run's record says (infra/runs/recorded_hosts.py) where it lies in a bucket. Refuses to own
what is said of a pod (pod_view.py) and which cluster it is (the targets). Not run on real hardware.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from infra.names import STACK_LABEL, stack_label
from infra.pods import pod_jobs, pod_view
from infra.pods.cluster import Cluster
from infra.pods.job_set import CONTAINER, SLICE_LABEL, bundle_of
from infra.pods.pod_terms import PodTerms
from infra.runs.recorded_hosts import RecordedHosts
from infra.targets.errors import TargetError
from infra.targets.hosts import HostView
from infra.targets.phases import BOOTING

_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_POD_INDEX = "batch.kubernetes.io/job-completion-index"
_ENDED_S, _PAUSE_S = 900.0, 1.0


class PodHosts(RecordedHosts):
    """The pods of one stack. cluster: None where there is none yet, and so no pod."""

    def __init__(self, settings: PodTerms, cluster: Cluster | None) -> None:
        super().__init__(settings)
        self._settings = settings
        self._cluster = cluster

    def states(self) -> Sequence[HostView]:
        found = self._found()
        if not found:
            return ()
        pods = {_index(pod, self._settings.row.hosts): pod for pod in self._pods()}
        why = "" if pods else pod_view.why_no_pods(found[0], self._jobs(), self._events())
        bundle = bundle_of(found[0])
        hosts = self._settings.row.hosts
        return [_view(index, index // hosts, pods.get(index), bundle, why) for index in range(self._hosts)]

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        pods = {_index(pod, self._settings.row.hosts): pod for pod in self._pods()}
        if index not in range(self._hosts):
            raise LookupError(f"stack '{self.stack}' has hosts 0 to {self._hosts - 1}")
        if index not in pods:
            why = next((host.reason for host in self.states() if host.index == index), "there is no JobSet")
            raise TargetError(f"host {index} of stack '{self.stack}' has no pod: {why}")
        at = f"{self._core}/pods/{pods[index]['metadata']['name']}/log"
        assert self._cluster, "there is no pod without a cluster"
        return self._cluster.lines(at, {"container": CONTAINER, "follow": str(follow).lower()})

    def stop(self, progress: Callable[[str], None]) -> None:
        """JobSet ends the pods of a suspended set, which save a checkpoint first."""
        self._suspend(True)
        until = time.monotonic() + _ENDED_S
        while left := len(self._pods()):
            if time.monotonic() > until:
                raise TargetError(f"{left} pods of stack '{self.stack}' have not ended after {_ENDED_S:.0f} s")
            progress(f"{left} of {self._hosts} pods have not ended")
            time.sleep(_PAUSE_S)

    def start(self) -> None:
        self._suspend(False)

    def _suspend(self, suspended: bool) -> None:
        found = self._found()
        if not found:
            raise TargetError(f"stack '{self.stack}' has nothing there; run: pulumi up --stack {self.stack}")
        assert self._cluster, "nothing is there without a cluster"
        for each in found:
            at = pod_jobs.path(self._settings.namespace, each["kind"], each["metadata"]["name"])
            self._cluster.merge(at, {"spec": {"suspend": suspended}})

    @property
    def _hosts(self) -> int:
        return self._settings.row.hosts * self._settings.slices

    @property
    def _core(self) -> str:
        return f"/api/v1/namespaces/{self._settings.namespace}"

    @property
    def _selector(self) -> str:
        return f"{STACK_LABEL}={stack_label(self.stack)}"

    def _found(self) -> list[dict[str, Any]]:
        return pod_jobs.labelled(self._cluster, self._settings.namespace, self._selector) if self._cluster else []

    def _pods(self) -> list[dict[str, Any]]:
        """The newest of each host last: one that was taken away may still be there."""
        found = self._listed(f"{self._core}/pods", {"labelSelector": self._selector})
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def _jobs(self) -> list[dict[str, Any]]:
        return self._listed(pod_jobs.path(self._settings.namespace, "Job"), {"labelSelector": self._selector})

    def _listed(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        return self._cluster.get(path, query)["items"] if self._cluster else []

    def _events(self) -> list[dict[str, Any]]:
        """Of the set and its jobs, oldest first."""
        name = self._settings.group_name
        events = self._listed(f"{self._core}/events", {"fieldSelector": "type=Warning"})
        ours = [event for event in events if event["involvedObject"].get("name", "").startswith(name)]
        return sorted(ours, key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])


def _index(pod: dict[str, Any], hosts: int) -> int:
    labels = pod["metadata"]["labels"]
    return int(labels.get(SLICE_LABEL) or labels[_JOB_INDEX]) * hosts + int(labels[_POD_INDEX])


def _view(index: int, number: int, pod: dict[str, Any] | None, bundle: str, why: str) -> HostView:
    if pod is None:
        return HostView(index, number, f"host {index}", BOOTING, why or "its pod is not made yet", bundle, 0.0)
    phase, reason = pod_view.phase_of(pod)
    made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
    node = pod["spec"].get("nodeName", "")
    name = pod["metadata"]["name"]
    return HostView(
        index, number, name, phase, reason, bundle, max(0.0, time.time() - made), detail={"node": node} if node else {}
    )
