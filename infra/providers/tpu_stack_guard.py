"""slipway:tpu:StackGuard: declared first, so its delete runs last and ends requests that the state never learned of.

It finds what carries the stack's label in the stack's zones; what another stack owns is out of its reach. Nothing else
that is billed is made by a tpu-vm stack: data disks are the user's own, boot disks go with their node. Not run on real
hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.providers import tpu_cleanup
from infra.providers.resource import Context, Outputs, Resource, replaces, updates


@dataclass(frozen=True)
class TpuStackGuardInputs:
    project: str = replaces("what a stack owns lies in one project")
    label: str = replaces("it is what the stack's things are found by")
    zones: list[str] = updates()  # searched at the end, those of before an update too


class TpuStackGuard(Resource[TpuStackGuardInputs]):
    token: ClassVar[str] = "slipway:tpu:StackGuard"
    inputs = TpuStackGuardInputs
    timeout_s: ClassVar[float] = 1800.0

    def create(self, context: Context, new: TpuStackGuardInputs) -> tuple[str, Outputs]:
        return f"{new.project}/{new.label}", {"searched": sorted(new.zones)}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {}

    def update(self, context: Context, identifier: str, outputs: Outputs, new: TpuStackGuardInputs) -> Outputs:
        return {"searched": sorted({*outputs.get("searched", []), *new.zones})}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        parents = [f"projects/{outputs['project']}/locations/{zone}" for zone in outputs["searched"]]
        for name in tpu_cleanup.remove_labelled(context, parents, lambda found: found.stack == outputs["label"]):
            context.say(f"deleted {name}, which the state did not know")
