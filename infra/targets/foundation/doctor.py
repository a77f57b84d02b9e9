"""What `slipway doctor` asks a project for before a foundation: each permission that `up` uses, and who may give it.

Refuses to own what hosts are granted (components/identity.py). Roles are written from their reference pages; never
compared with Google's own service.
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.google_cloud.google_project import GoogleProject
from infra.targets.foundation.settings import Egress, FoundationSettings
from infra.targets.needs import Finding, Needs, Question, ok, wrong

PERMISSIONS: Mapping[str, str] = {
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


def needs(settings: FoundationSettings) -> Needs:
    permissions = dict(PERMISSIONS)
    if settings.budget_usd:
        permissions |= BUDGET
    if settings.egress is Egress.NAT:
        permissions |= NAT
    more: dict[str, Question] = {}
    if settings.budget_billing_account:
        account = settings.budget_billing_account
        more["budget"] = lambda project: _billing_account(project, account)
    return Needs(settings.services, permissions, enables_services=True, more=more)


def _billing_account(project: GoogleProject, account: str) -> Finding:
    granted = project.granted_on_billing_account(account, tuple(BILLING_ACCOUNT))
    missing = [name for name in BILLING_ACCOUNT if name not in granted]
    if not missing:
        return ok("budget", f"billing account {account} lets you make one")
    roles = " and ".join(dict.fromkeys(BILLING_ACCOUNT[name] for name in missing))
    return wrong(
        "budget",
        f"no permission for {', '.join(missing)} on billing account {account}; have one of its administrators give you "
        f"{roles} there, or leave budget_usd out",
    )
