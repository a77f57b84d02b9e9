"""What a cluster is told of a stack's pods: from settings and what hosts install to manifests. Pure.

Owns the labels and the script that they get. Refuses to own what a manifest says (job_set.py).
"""

from __future__ import annotations

from dataclasses import replace

from infra import names
from infra.host_software.derive import HostSoftware
from infra.paths import TRAINING
from infra.pods.job_set import manifests
from infra.pods.pod_group import Manifest
from infra.pods.pod_terms import PodTerms
from infra.targets.places import in_s3


def run_manifests(settings: PodTerms, software: HostSoftware) -> list[Manifest]:
    """In the order in which they are made."""
    labels = names.labels(settings.owner, settings.stack)
    group = replace(settings.group, bundle=software.bundle, labels=labels)
    names_of_scripts = ("bootstrap.sh", "s3_objects.py") if in_s3(group.artifacts) else ("bootstrap.sh",)
    return manifests(group, {name: (TRAINING / name).read_text() for name in names_of_scripts})
