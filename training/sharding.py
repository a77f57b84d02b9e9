"""Mesh arithmetic of MaxText's parallelism fields. A leaf: standard library only.

Owns the names of the mesh axes and the rule that their product is the device count. MaxText checks this only while it
builds the model on paid devices (utils of MaxText 0.2.5), so settings checks it at preview.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

# MaxText 0.2.5, configs/types.py: every axis has an ici_<axis>_parallelism and a dcn_<axis>_parallelism field. Named
# as these fields are: MaxText's mesh calls the axis of ici_pipeline_parallelism "stage".
AXES = (
    "diloco", "data", "pipeline", "fsdp", "fsdp_transpose", "context", "context_usp_ulysses", "context_autoregressive",
    "tensor", "tensor_sequence", "expert", "autoregressive",
)  # fmt: skip
_DEFAULT_REST = {"ici": "fsdp", "dcn": "data"}  # the axes that MaxText leaves at -1 ("the rest")


class MeshError(ValueError):
    """The mesh does not cover the devices; the message names the key and the numbers."""


@dataclass(frozen=True)
class Mesh:
    """Axis sizes above 1, in MaxText's order. `ici` multiplies to devices per slice, `dcn` to slices."""

    ici: dict[str, int]
    dcn: dict[str, int]

    def __str__(self) -> str:
        ici = " x ".join(f"{axis} {size}" for axis, size in self.ici.items()) or "1 device"
        dcn = " x ".join(f"{axis} {size}" for axis, size in self.dcn.items())
        return f"{ici} (ICI)" + (f", {dcn} (DCN)" if dcn else "")


def resolve_mesh(overrides: Mapping[str, object], devices_per_slice: int, slices: int) -> Mesh:
    """Axis sizes with every -1 resolved. Raises MeshError where a product is not the device or slice count."""
    return Mesh(_resolve(overrides, "ici", devices_per_slice), _resolve(overrides, "dcn", slices))


def _resolve(overrides: Mapping[str, object], network: str, total: int) -> dict[str, int]:
    keys = {axis: f"{network}_{axis}_parallelism" for axis in AXES}
    sizes: dict[str, int] = {}
    for axis, key in keys.items():
        size = overrides.get(key, -1 if axis == _DEFAULT_REST[network] else 1)
        if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != -1):
            raise MeshError(f"{key} is {size!r}; give a whole number from 1, or -1 for the rest of the devices")
        sizes[axis] = size
    what = "devices of a slice" if network == "ici" else "slices"
    rest = [axis for axis, size in sizes.items() if size == -1]
    if len(rest) > 1:
        both = " and ".join(keys[axis] for axis in rest)
        raise MeshError(f"{both} are both -1; only one axis can take the rest of the {total} {what}")
    product = math.prod(size for size in sizes.values() if size != -1)
    if rest and total % product == 0:
        sizes[rest[0]] = total // product
    elif rest or product != total:
        named = " x ".join(f"{keys[axis]} {size}" for axis, size in sizes.items() if size not in (1, -1))
        raise MeshError(
            f"mesh {named or network} is {product}, but there are {total} {what}; "
            f"make the {network}_*_parallelism keys multiply to {total}"
        )
    return {axis: size for axis, size in sizes.items() if size > 1}
