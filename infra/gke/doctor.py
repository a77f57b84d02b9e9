"""What `slipway doctor` asks a project for before a GKE cluster, besides what every training at Google needs.

Roles are written from their reference pages; never compared with Google's own service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from infra.doctor.cloud_training import training_needs
from infra.gke import reach
from infra.gke.settings import GkeSettings, PoolWorkload
from infra.google_login import LoginError
from infra.pods.pod_findings import job_set_finding
from infra.pods.pod_group import JobKind
from infra.targets.errors import TargetError
from infra.targets.needs import Finding, Needs, Question, not_asked

SERVICES = ("artifactregistry", "compute", "iam", "storage")  # besides GKE's, which `up` enables
PERMISSIONS: Mapping[str, str] = {
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "container.clusters.create": "roles/container.admin",
    "container.clusters.connect": "roles/container.admin",  # by its name in Google's DNS
    "container.clusters.delete": "roles/container.admin",
    "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
    "iam.serviceAccounts.setIamPolicy": "roles/iam.serviceAccountAdmin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin",
    "storage.buckets.setIamPolicy": "roles/storage.admin",
    "artifactregistry.repositories.setIamPolicy": "roles/artifactregistry.admin",
}
_PLACEMENT: Mapping[str, str] = {"compute.resourcePolicies.create": "roles/compute.instanceAdmin.v1"}
_NETWORKS: Mapping[str, str] = {  # of the further cards of its nodes
    "compute.networks.create": "roles/compute.networkAdmin",
    "compute.subnetworks.create": "roles/compute.networkAdmin",
    "compute.firewalls.create": "roles/compute.securityAdmin",
}


def needs(settings: GkeSettings) -> Needs:
    permissions = dict(PERMISSIONS)
    if settings.makes_networks:
        permissions |= _NETWORKS
    if settings.row.gke_workload_policy and settings.row.hosts > 1:
        permissions |= _PLACEMENT
    needed = training_needs(settings, SERVICES, permissions)
    if settings.workload is PoolWorkload.NONE or settings.job_kind is not JobKind.JOBSET:
        return needed
    more: dict[str, Question] = {**needed.more, "JobSet": lambda _: _job_set(settings)}
    return dataclasses.replace(needed, more=more)


def _job_set(settings: GkeSettings) -> Finding:
    try:
        cluster = reach.cluster(settings)
        if cluster is None:
            return not_asked("JobSet", "there is no cluster yet; `up` installs it in a new one")
        return job_set_finding(cluster, settings.namespace, settings.installs_job_set)
    except (TargetError, LoginError) as error:
        return not_asked("JobSet", str(error))
