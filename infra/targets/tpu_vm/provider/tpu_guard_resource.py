"""slipway:tpu:StackGuard: declared first, so its delete runs last and ends requests that the state never learned of.

It finds what carries the stack's and its owner's label in the stack's zones; what another stack or another owner has is
out of its reach. Nothing else that is billed is made by a tpu-vm stack: data disks are the user's own, boot disks go
with their node. Not run on real hardware.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from infra.providers.resource import Context, Outputs, RemoteService, Resource, ResourceError
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup
from infra.targets.tpu_vm.provider.tpu_cleanup import Found
from infra.targets.tpu_vm.provider.tpu_inputs import TpuStackGuardInputs
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim, delete_command


class TpuStackGuardResource(Resource[TpuStackGuardInputs]):
    inputs = TpuStackGuardInputs
    timeout_s: ClassVar[float] = 1800.0

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return tpu_api.API.service

    def is_there(self, context: Context, identifier: str, outputs: Outputs) -> bool:
        """A guard makes nothing itself, so it is asked whether there is anything that it would remove."""
        return any(_of_stack(context, str(outputs["label"]), self._parents(outputs)))

    def create(self, context: Context, new: TpuStackGuardInputs) -> tuple[str, Outputs]:
        return f"{new.project}/{new.label}", {"searched": sorted(new.zones)}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {}

    def update(self, context: Context, identifier: str, outputs: Outputs, new: TpuStackGuardInputs) -> Outputs:
        return {"searched": sorted({*outputs.get("searched", []), *new.zones})}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        project, label, parents = str(outputs["project"]), str(outputs["label"]), self._parents(outputs)
        owner = str(outputs.get("owner", ""))
        if not owner:
            self._refuse_anything(context, label, parents)
            return
        claim = StackClaim(label, owner)
        settle_s = tpu_cleanup.settle_s(project, label)

        def is_ours(thing: Found) -> bool:
            return claim.covers(dict(thing.labels))

        for name in tpu_cleanup.remove_labelled(context, parents, is_ours, settle_s):
            context.say(f"deleted {name}, which the state did not know")

    def _refuse_anything(self, context: Context, label: str, parents: list[str]) -> None:
        """Delete nothing where the owner is not known: a colleague may have a stack of the same name."""
        left = list(_of_stack(context, label, parents))
        if left:
            commands = "; ".join(delete_command(name) for name in left)
            raise ResourceError(
                f"{', '.join(left)}: labelled as this stack's, but not known to its state, which does not say whose "
                f"the stack is; `pulumi up` puts that right, or if they may go: {commands}"
            )

    def _parents(self, outputs: Outputs) -> list[str]:
        return [f"projects/{outputs['project']}/locations/{zone}" for zone in outputs["searched"]]


def _of_stack(context: Context, label: str, parents: list[str]) -> Iterator[str]:
    """Names of what carries the stack's label, whosever it is."""
    for parent in parents:
        yield from (thing.name for thing in tpu_cleanup.labelled(context, parent) if thing.stack == label)
