"""slipway:vertex:StackGuard: declared first, so its delete runs last and ends jobs that the state never learned of.

It keeps the identity of its state, which every job of it carries as a label, and deletes what has it, in every region
where the stack file has ever asked: what another stack, another clone or a colleague has is out of its reach. Nothing
else that is billed is made by a stack of target vertex. Not run on real hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.names import STACK_LABEL, STATE_LABEL
from infra.providers.resource import Context, Outputs, RemoteService, Resource
from infra.providers.stack_guard_resource import new_identity
from infra.targets.vertex.provider import vertex_api, vertex_cleanup
from infra.targets.vertex.provider.vertex_api import CustomJob
from infra.targets.vertex.provider.vertex_inputs import VertexStackGuardInputs


class VertexStackGuardResource(Resource[VertexStackGuardInputs]):
    inputs = VertexStackGuardInputs
    timeout_s: ClassVar[float] = 1800.0

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return vertex_api.API.service

    def create(self, context: Context, new: VertexStackGuardInputs) -> tuple[str, Outputs]:
        return f"{new.project}/{new.label}", _kept(new, {})

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {}

    def update(self, context: Context, identifier: str, outputs: Outputs, new: VertexStackGuardInputs) -> Outputs:
        return _kept(new, outputs)

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        project, label, identity = (str(outputs[key]) for key in ("project", "label", "identity"))
        parents = [f"projects/{project}/locations/{region}" for region in outputs["searched"]]

        def is_ours(job: CustomJob) -> bool:
            return (job.labels.get(STACK_LABEL), job.labels.get(STATE_LABEL)) == (label, identity)

        settle_s = vertex_cleanup.settle_s(project, label)
        for name in vertex_cleanup.remove_wanted(context, parents, is_ours, settle_s):
            context.say(f"deleted {name}, which the state did not know")


def _kept(new: VertexStackGuardInputs, before: Outputs) -> Outputs:
    """Where to look at the end: also where the stack file has said before."""
    return {
        "searched": sorted({*before.get("searched", []), *new.regions}),
        "identity": before.get("identity") or new_identity(new.owner),
    }
