"""What `slipway doctor` asks a project for besides what every cloud target needs.

Roles are written from their reference pages; never compared with Google's own service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

from infra.doctor.cloud_training import training_needs
from infra.google_cloud.google_project import GoogleProject
from infra.targets.needs import Finding, Needs, Question, ok, wrong
from infra.targets.vertex import plan
from infra.targets.vertex.settings import VertexSettings

SERVICES = ("aiplatform", "logging", "storage")
# Its containers run as the foundation's account.
PERMISSIONS: Mapping[str, str] = {
    "aiplatform.customJobs.create": "roles/aiplatform.user",
    "aiplatform.customJobs.cancel": "roles/aiplatform.user",
    "aiplatform.customJobs.delete": "roles/aiplatform.user",
    "aiplatform.customJobs.list": "roles/aiplatform.user",
    "logging.logEntries.list": "roles/logging.viewer",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
}
# Roles that hold all that one of them holds.
_MORE: Mapping[str, tuple[str, ...]] = {
    "roles/storage.objectViewer": ("objectUser", "objectAdmin", "admin"),
    "roles/storage.objectUser": ("objectAdmin", "admin"),
    "roles/storage.legacyBucketReader": ("legacyBucketWriter", "legacyBucketOwner", "admin"),
}


def needs(settings: VertexSettings) -> Needs:
    needed = training_needs(settings, SERVICES, PERMISSIONS)
    more: dict[str, Question] = dict(needed.more)
    if settings.service_account:
        more["account"] = partial(_account, settings)
    if settings.reservation:
        more["reservation"] = partial(_reservation, settings, settings.reservation)
    return dataclasses.replace(needed, more=more)


def _account(settings: VertexSettings, project: GoogleProject) -> Finding:
    """By the buckets' own policies, in which a role on the whole project does not stand."""
    lacks: list[str] = []
    for bucket, roles in plan.roles(settings).items():
        held = project.roles_on_bucket(bucket, f"serviceAccount:{settings.account}")
        missing = [role for role in roles if not held & {role, *(f"roles/storage.{each}" for each in _MORE[role])}]
        lacks += [f"{', '.join(missing)} on gs://{bucket}"] if missing else []
    if not lacks:
        return ok("account", f"{settings.account} may read and write the run's buckets")
    return wrong("account", f"{settings.account} lacks {'; '.join(lacks)}; grant that, unless the project does")


def _reservation(settings: VertexSettings, reservation: str, project: GoogleProject) -> Finding:
    machine = settings.row.machine.name if settings.row.machine else ""
    reserved = project.reserved_machine(reservation)
    if reserved == machine:
        return ok("reservation", f"{reservation} is of {machine}")
    return wrong(
        "reservation", f"{reservation} is of {reserved or 'no machine'}, and the job wants {machine}; name another"
    )
