"""slipway:artifacts:Wheelhouse: the locked wheels of one platform in an artifact store, named by what they are made of.

Where it is absent, a child process builds it; Ctrl-C ends that process, and the next `up` goes on from there. A delete
keeps the wheelhouse: other stacks and runs may name it, and `slipway gc` knows which.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.opening import open_store
from infra.paths import ROOT
from infra.providers import children
from infra.providers.inputs import StoredWheelhouseInputs
from infra.providers.made_at import stored_at
from infra.providers.resource import Context, Outputs, RemoteService, Resource


class StoredWheelhouseResource(Resource[StoredWheelhouseInputs]):
    inputs = StoredWheelhouseInputs
    timeout_s: ClassVar[float] = 2 * 3600.0

    def service(self, values: Mapping[str, Any]) -> RemoteService | None:
        return stored_at(str(values["store"]))

    def create(self, context: Context, new: StoredWheelhouseInputs) -> tuple[str, Outputs]:
        self._ensure(context, new)
        return new.wheelhouse, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        there = open_store(str(outputs["store"])).has(wheelhouse_key(str(outputs["wheelhouse"])))
        return {} if there else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: StoredWheelhouseInputs) -> Outputs:
        self._ensure(context, new)
        return {}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Other stacks and runs may name it."""

    def _ensure(self, context: Context, new: StoredWheelhouseInputs) -> None:
        if open_store(new.store).has(wheelhouse_key(new.wheelhouse)):
            return
        slipway = str(Path(sys.executable).with_name("slipway"))
        command = [slipway, "wheels", "build", *new.arguments, "--expect", new.wheelhouse, "--push", new.store]
        children.run(context, f"wheelhouse {new.wheelhouse}", command, os.environ, str(ROOT))
