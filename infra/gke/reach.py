"""The pods of a stack, in the cluster that GKE has for it: what `status`, `logs`, `watch`, `stop` and `start` ask."""

from __future__ import annotations

from infra.gke import clusters
from infra.gke.kubeconfig import kubeconfig
from infra.gke.settings import GkeSettings
from infra.google_login import credential
from infra.paths import TOOLS
from infra.pods.cluster import Cluster
from infra.pods.pod_hosts import PodHosts
from infra.stack_file.settings import from_file


def hosts(stack: str) -> PodHosts:
    settings = from_file(stack)
    assert isinstance(settings, GkeSettings)
    return PodHosts(settings, cluster(settings))


def cluster(settings: GkeSettings) -> Cluster | None:
    """None where there is none yet. Raises TargetError where that cannot be told, LoginError without credentials."""
    name = settings.cluster_name
    found = clusters.named(settings.project, settings.place, name)
    if found is None:
        return None
    credential()  # the official client would log why there is none, and ask without
    return Cluster(name, kubeconfig(name, found, str(TOOLS / "slipway")))
