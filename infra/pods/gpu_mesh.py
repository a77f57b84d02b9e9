"""Which parts of a mesh would be spread over several hosts with GPUs although each layer waits for them. Pure.

Owns the sentence with what that costs. Refuses to own what a mesh is (training/sharding.py).
"""

from __future__ import annotations

import math

from infra.hardware import Accelerator
from infra.pods.gpu_terms import GpuTerms
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import where
from training.run_spec import RunSpec
from training.sharding import resolve_mesh

_OF_EACH_LAYER = ("tensor", "tensor_sequence")  # axes whose exchanges each layer waits for


def check(settings: GpuTerms, spec: RunSpec) -> None:
    """Raises SettingsError for tensor parallelism that crosses hosts."""
    row = settings.row
    if row.platform != "gpu":
        return
    mesh = resolve_mesh(spec.maxtext, row.devices, settings.slices)
    axes = {axis: mesh.ici[axis] for axis in _OF_EACH_LAYER if mesh.ici.get(axis, 1) > 1}
    spread, inside = math.prod(axes.values()), row.devices_per_host
    if spread <= inside and inside % max(spread, 1) == 0:
        return
    keys = " x ".join(f"ici_{axis}_parallelism {size}" for axis, size in axes.items())
    raise SettingsError(
        f"training: {keys} crosses hosts of {inside} GPUs in {where(settings)}, and every layer waits for it: "
        f"{_cost(row)}; make it a divisor of {inside}, and let fsdp or data parallelism cross hosts"
    )


def _cost(row: Accelerator) -> str:
    if not (row.nic_gbits_per_host and row.ici_gbytes_per_s):
        return "it would go over the network between hosts, and not over NVLink"
    network = row.nic_gbits_per_host / 8 / row.chips_per_host
    return (
        f"each GPU would have {network:.0f} GB/s of the network for it, where NVLink has {row.ici_gbytes_per_s:.0f}, "
        f"so these exchanges take {row.ici_gbytes_per_s / network:.0f} times as long"
    )
