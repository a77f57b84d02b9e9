"""What pods need of the cluster that they are to run in, and whether it is there: for `slipway doctor`."""

from __future__ import annotations

from infra.pods import pod_jobs
from infra.pods.cluster import Cluster
from infra.targets.needs import Finding, ok, wrong


def job_set_finding(cluster: Cluster, namespace: str) -> Finding:
    """Raises TargetError where the cluster does not answer."""
    if cluster.find(pod_jobs.path(namespace, "JobSet")) is not None:
        return ok("JobSet", "the cluster has it")
    return wrong("JobSet", "the cluster does not have it; install it (jobset.sigs.k8s.io), or write `job_kind: job`")
