"""What people may have to be granted: each permission that `up` uses first of its kind, and the role that allows it.

Owns the tables that `slipway doctor` asks about and docs/first-project.md names. Refuses to own what hosts are granted
(infra/targets/foundation/components/identity.py). Written from the roles' reference pages; never compared with
Google's own service.
"""

from __future__ import annotations

from collections.abc import Mapping

# TPU hosts run as the foundation's account.
TRAINING: Mapping[str, str] = {
    "tpu.nodes.create": "roles/tpu.admin",
    "tpu.nodes.delete": "roles/tpu.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
}
FOUNDATION: Mapping[str, str] = {
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "resourcemanager.projects.get": "roles/resourcemanager.projectIamAdmin",  # who asks for the storage agent
    "resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin",
    "storage.buckets.create": "roles/storage.admin",
    "storage.buckets.setIamPolicy": "roles/storage.admin",
    "cloudkms.keyRings.create": "roles/cloudkms.admin",
    "cloudkms.cryptoKeys.setIamPolicy": "roles/cloudkms.admin",
    "artifactregistry.repositories.create": "roles/artifactregistry.admin",
    "artifactregistry.repositories.setIamPolicy": "roles/artifactregistry.admin",
    "secretmanager.secrets.create": "roles/secretmanager.admin",
    "secretmanager.secrets.setIamPolicy": "roles/secretmanager.admin",
    "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
    "compute.networks.create": "roles/compute.networkAdmin",
    "compute.firewalls.create": "roles/compute.securityAdmin",
}
NAT: Mapping[str, str] = {"compute.routers.create": "roles/compute.networkAdmin"}
# The Budget API's calls count against the foundation's project ...
BUDGET: Mapping[str, str] = {"serviceusage.services.use": "roles/serviceusage.serviceUsageConsumer"}
# ... and these are asked of the billing account, which no role on a project reaches.
BILLING_ACCOUNT: Mapping[str, str] = {"billing.budgets.create": "roles/billing.costsManager"}
