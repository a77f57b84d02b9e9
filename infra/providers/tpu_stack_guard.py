"""slipway:tpu:StackGuard: declared first, so its delete runs last and ends requests that the state never learned of.

It finds what carries the stack's label in the stack's zones; what another stack owns is out of its reach. Not run on
real hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.providers import tpu_api
from infra.providers.queued_resource import remove, stack_label
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
        for zone in outputs.get("searched", outputs["zones"]):
            for found in tpu_api.listed(f"projects/{outputs['project']}/locations/{zone}"):
                if stack_label(found) == outputs["label"]:
                    remove(context, str(found.name))
                    context.say(f"deleted {found.name}, which the state did not know")
