"""What `slipway doctor` asks a project for before a GKE cluster, besides what every training at Google needs.

Roles are written from their reference pages; never compared with Google's own service.
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.doctor.cloud_training import training_needs
from infra.targets.gke_tpu.settings import GkeTpuSettings
from infra.targets.needs import Needs

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


def needs(settings: GkeTpuSettings) -> Needs:
    permissions = dict(PERMISSIONS)
    if settings.row.gke_workload_policy and settings.row.hosts > 1:
        permissions |= _PLACEMENT
    return training_needs(settings, SERVICES, permissions)
