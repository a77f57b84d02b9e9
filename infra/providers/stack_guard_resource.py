"""slipway:stack:StackGuard: declared first, so its delete runs last and ends what the state never learned of.

It keeps the identity of its state, which all that the state makes carries as the label `slipway-state`, and deletes
what has it, as the target finds and removes it (infra/targets/contract.py: `billed`, `remove`). A colleague's, or
another clone's, is out of its reach.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from infra import emulated
from infra.names import STATE_LABEL, owner_digest
from infra.providers.inputs import StackGuardInputs
from infra.providers.resource import Context, Outputs, RemoteService, Resource, ResourceError
from infra.targets import registry
from infra.targets.errors import TargetError


def new_identity(owner: str) -> str:
    """Of a state: no two have the same, and it tells owners of one label apart."""
    return f"{owner_digest(owner)}-{uuid.uuid4().hex[:12]}"


class StackGuardResource(Resource[StackGuardInputs]):
    inputs = StackGuardInputs
    timeout_s = 1800.0

    def service(self, values: Mapping[str, Any]) -> RemoteService | None:
        """Who makes what its target bills: asked of another, `billed` would find nothing, and that would run on."""
        makers = registry.paid()[values["target"]].asks - {emulated.STORAGE, emulated.QUESTIONS}
        set_here = [each.variable for each in emulated.substitutes(os.environ) if each.counts_as in makers]
        variable = next(iter((*set_here, *sorted(makers))), "")
        return RemoteService("Google", variable, os.environ.get(variable, "")) if makers else None

    def create(self, context: Context, new: StackGuardInputs) -> tuple[str, Outputs]:
        return f"{new.place}/{new.stack}", {"identity": new_identity(new.owner)}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {}

    def update(self, context: Context, identifier: str, outputs: Outputs, new: StackGuardInputs) -> Outputs:
        return {"identity": outputs["identity"]}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        target = registry.paid()[outputs["target"]]
        try:
            billed = target.billed(str(outputs["place"]), context.say)
            ours = {each.name for each in billed if dict(each.labels).get(STATE_LABEL) == outputs["identity"]}
            for name in target.remove(ours, context.say) if ours else ():
                context.say(f"deleted {name}, which the state did not know")
        except TargetError as error:
            raise ResourceError(str(error)) from None
