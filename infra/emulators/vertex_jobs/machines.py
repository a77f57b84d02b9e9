"""Which machines custom jobs may ask for, in which regions, and the quota that they count against.

GPU machines and their regions are those of the hardware table; of others, the families that Google's page on custom
training names, in every region that gcloud 528 lists for training. Refuses to own how many there are (job_cloud.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra import hardware
from infra.emulators.vertex_jobs import job_messages
from infra.emulators.vertex_jobs.job_records import MachineTerms
from infra.hardware import Accelerator, Api

REGIONS = frozenset(
    (
        *("africa-south1", "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2", "asia-northeast3"),
        *("asia-south1", "asia-southeast1", "asia-southeast2", "australia-southeast1", "australia-southeast2"),
        *("europe-central2", "europe-north1", "europe-southwest1", "europe-west1", "europe-west2", "europe-west3"),
        *("europe-west4", "europe-west6", "europe-west8", "europe-west9", "europe-west12", "me-central1"),
        *("me-central2", "me-west1", "northamerica-northeast1", "northamerica-northeast2", "southamerica-east1"),
        *("southamerica-west1", "us-central1", "us-east1", "us-east4", "us-east5", "us-south1", "us-west1"),
        *("us-west2", "us-west3", "us-west4"),
    )
)
_CPU_MACHINE = re.compile(r"(n1|n2|n2d|e2|c2|c2d|c3)-(standard|highmem|highcpu)-(\d+)")
_ATTACHED = re.compile(r"NVIDIA_TESLA_(T4|P4|P100|V100)")  # to any machine of n1
_CPU_METRIC = "custom_model_training_cpus"
METRIC_DOMAIN = "aiplatform.googleapis.com"


@dataclass(frozen=True)
class QuotaUse:
    """So many units of a quota metric, which is named without its domain."""

    metric: str
    units: int


@cache
def _gpu_rows() -> dict[str, tuple[Accelerator, ...]]:
    """Rows of GPUs by machine type; sizes of one family differ only in how many machines they are."""
    by_machine = dict[str, list[Accelerator]]()
    for row in hardware.rows(Api.VERTEX):
        if row.machine and row.platform == "gpu":
            by_machine.setdefault(row.machine.name, []).append(row)
    return {machine: tuple(rows) for machine, rows in by_machine.items()}


def complaint(spec: Any, region: str) -> str:
    """Why a MachineSpec cannot be had in a region; "" where it can. Seen: the first two sentences."""
    machine, count = spec.machine_type, spec.accelerator_count
    accelerator = job_messages.enum_name(spec, "accelerator_type") if spec.accelerator_type else ""
    if not is_offered(machine, region):
        return f'Machine type "{machine}" is not supported.'
    rows = _gpu_rows().get(machine)
    attached = machine.startswith("n1-") and _ATTACHED.fullmatch(accelerator)
    if accelerator and not attached and accelerator != (rows[0].vertex_accelerator if rows else ""):
        return f'Accelerator "{accelerator}" is not supported for machine type "{machine}".'
    if attached and count not in (1, 2, 4, 8):
        return f'{count} of accelerator "{accelerator}" are not supported for machine type "{machine}".'
    if rows and (not accelerator or count != rows[0].chips_per_host):
        needed = f"{rows[0].chips_per_host} of {rows[0].vertex_accelerator}"
        return f'Machine type "{machine}" needs {needed}, not {count} of {accelerator or "no accelerator"}.'
    return ""


def is_offered(machine: str, region: str) -> bool:
    rows = _gpu_rows().get(machine)
    if rows is None:
        matched = _CPU_MACHINE.fullmatch(machine)
        return region in REGIONS and bool(matched) and int(matched[3]) >= (4 if matched[1] == "n1" else 2)
    return any(zone.rpartition("-")[0] == region for row in rows for zone in row.zones)


def quota_use(spec: Any, replicas: int, terms: MachineTerms) -> QuotaUse | None:
    """What so many machines count against; None where no source names the metric. Reservations need no quota."""
    rows = _gpu_rows().get(spec.machine_type)
    if terms is MachineTerms.RESERVED:
        return None
    if rows is None:
        return QuotaUse(_CPU_METRIC, replicas * int(spec.machine_type.rpartition("-")[2]))
    quota = rows[0].quota(Api.VERTEX)
    # Flex-start draws on the quota of preemptible machines, as Google's page on it says.
    metric = quota and (quota.on_demand if terms is MachineTerms.STANDARD else quota.spot)
    return QuotaUse(metric, replicas * rows[0].chips_per_host) if metric else None
