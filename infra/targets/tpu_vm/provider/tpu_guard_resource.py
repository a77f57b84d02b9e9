"""slipway:tpu:StackGuard: declared first, so its delete runs last and ends requests that the state never learned of.

It keeps the identity of its state, which everything that the state makes carries as a label, and deletes what has it:
what another stack, another clone or a colleague has is out of its reach, and so is what the state has said to hosts in
the artifact store, which goes last. Nothing else that is billed is made by a
tpu-vm stack: data disks are the user's own, boot disks go with their node. Not run on real hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.providers.resource import Context, OnChange, Outputs, RemoteService, Resource, ResourceError
from infra.providers.stack_guard_resource import new_identity
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup, tpu_wanted
from infra.targets.tpu_vm.provider.tpu_cleanup import Found
from infra.targets.tpu_vm.provider.tpu_inputs import TpuStackGuardInputs
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim, delete_command, holder_of, tail


class TpuStackGuardResource(Resource[TpuStackGuardInputs]):
    inputs = TpuStackGuardInputs
    timeout_s: ClassVar[float] = 1800.0

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return tpu_api.API.service

    def is_there(self, context: Context, identifier: str, outputs: Outputs) -> bool:
        """A guard makes nothing itself, so it is asked whether there is anything that it would remove."""
        found = (thing for parent in self._parents(outputs) for thing in tpu_cleanup.labelled(context, parent))
        return any(thing.stack == outputs["label"] for thing in found)  # whosever it is

    def create(self, context: Context, new: TpuStackGuardInputs) -> tuple[str, Outputs]:
        return f"{new.project}/{new.label}", _kept(new, {})

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {}

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """A state of 0.1.0 has no identity, in whose name hosts would be told anything."""
        changed = super().changes(old, new, state)
        if state is not None and not state.get("identity"):
            changed.pop("wanted_in", None)
        return changed

    def update(self, context: Context, identifier: str, outputs: Outputs, new: TpuStackGuardInputs) -> Outputs:
        return _kept(new, outputs)

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        project, label, parents = str(outputs["project"]), str(outputs["label"]), self._parents(outputs)
        identity = str(outputs.get("identity", ""))
        claim = StackClaim(label, identity)
        nobodys: dict[str, Found] = {}  # made by 0.1.0, which did not say by which state

        def is_ours(thing: Found) -> bool:
            labels = dict(thing.labels)
            if thing.stack == label and not holder_of(labels):
                nobodys[tail(thing.name)] = thing
            return claim.owns(labels)

        for name in tpu_cleanup.remove_labelled(context, parents, is_ours, tpu_cleanup.settle_s(project, label)):
            context.say(f"deleted {name}, which the state did not know")
        left = [thing.name for thing in nobodys.values() if tail(thing.request) not in nobodys]
        if left:
            said = (
                f"{', '.join(left)}: labelled as this stack's, made by Slipway 0.1.0, which did not say by which "
                f"clone; if they may go: {'; '.join(delete_command(name) for name in left)}"
            )
            if not identity:
                raise ResourceError(said)  # it may be this state's own
            context.say(said)
        if identity:
            tpu_wanted.forget(_stores(outputs), label, identity)

    def _parents(self, outputs: Outputs) -> list[str]:
        return [f"projects/{outputs['project']}/locations/{zone}" for zone in outputs["searched"]]


def _stores(outputs: Outputs) -> set[str]:
    return {*outputs.get("stores", []), *([outputs["wanted_in"]] if outputs.get("wanted_in") else [])}


def _kept(new: TpuStackGuardInputs, before: Outputs) -> Outputs:
    """Where to look at the end: also where the stack file has said before."""
    return {
        "searched": sorted({*before.get("searched", []), *new.zones}),
        "stores": sorted({*_stores(before), *([new.wanted_in] if new.wanted_in else [])}),
        "identity": before.get("identity") or new_identity(new.owner),
    }
