"""What `slipway doctor` asks a project for besides what every cloud target needs.

Roles are written from their reference pages; never compared with Google's own service.
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.doctor.cloud_training import training_needs
from infra.targets.needs import Needs
from infra.targets.vertex.settings import VertexSettings

SERVICES = ("aiplatform", "storage")
# Its containers run as the foundation's account.
PERMISSIONS: Mapping[str, str] = {
    "aiplatform.customJobs.create": "roles/aiplatform.user",
    "aiplatform.customJobs.cancel": "roles/aiplatform.user",
    "aiplatform.customJobs.delete": "roles/aiplatform.user",
    "aiplatform.customJobs.list": "roles/aiplatform.user",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
}


def needs(settings: VertexSettings) -> Needs:
    return training_needs(settings, SERVICES, PERMISSIONS)
