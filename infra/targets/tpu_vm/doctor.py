"""What `slipway doctor` asks a project for besides what every cloud target needs.

Roles are written from their reference pages; never compared with Google's own service.
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.doctor.cloud_training import training_needs
from infra.targets.needs import Needs
from infra.targets.tpu_vm.settings import TpuVmSettings

SERVICES = ("compute", "storage", "tpu")
# TPU hosts run as the foundation's account.
PERMISSIONS: Mapping[str, str] = {
    "tpu.nodes.create": "roles/tpu.admin",
    "tpu.nodes.delete": "roles/tpu.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
}


def needs(settings: TpuVmSettings) -> Needs:
    return training_needs(settings, SERVICES, PERMISSIONS)
