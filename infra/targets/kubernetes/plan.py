"""What a stack of target `kubernetes` asks its cluster for: from settings and what hosts install to manifests. Pure."""

from __future__ import annotations

from dataclasses import replace

from infra import names
from infra.host_software.derive import HostSoftware
from infra.paths import TRAINING
from infra.pods.job_set import manifests
from infra.pods.pod_group import Manifest, PodGroup
from infra.targets.kubernetes.settings import KubernetesSettings, bare_group
from infra.targets.places import in_bucket


def group(settings: KubernetesSettings, software: HostSoftware) -> PodGroup:
    labels = names.labels(settings.owner, settings.stack)
    return replace(bare_group(settings), bundle=software.bundle, labels=labels)


def declared(settings: KubernetesSettings, software: HostSoftware) -> list[Manifest]:
    """In the order in which they are made."""
    return manifests(group(settings, software), (TRAINING / "bootstrap.sh").read_text())


def notices(settings: KubernetesSettings) -> tuple[str, ...]:
    """What a reviewer should know besides what is said of every stack."""
    asked = bare_group(settings)
    each = ", ".join(f"{count} {resource}" for resource, count in asked.resources.items())
    pods = f"{asked.hosts} pods of {settings.image}, {each} each"
    where = f"cluster {settings.context}, namespace {settings.namespace}: {pods}"
    places = settings.places
    buckets = {place for place in (places.artifacts_on_hosts, places.runs) if in_bucket(place)}
    if not buckets:
        return (where,)
    return (where, f"pods reach {', '.join(sorted(buckets))} as their metadata server says, which Google's nodes have")
