"""slipway:artifacts:Wheelhouse: the locked wheels of one platform in an artifact store, named by what they are made of.

Where it is absent, a child process builds it; Ctrl-C ends that process, and the next `up` goes on from there. A delete
keeps the wheelhouse: other stacks and runs may name it, and `slipway gc` knows which.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.opening import open_store
from infra.paths import ROOT
from infra.providers import children
from infra.providers.inputs import StoredWheelhouseInputs
from infra.providers.made_at import StoredResource
from infra.providers.resource import Context, Outputs


class StoredWheelhouseResource(StoredResource[StoredWheelhouseInputs]):
    inputs = StoredWheelhouseInputs
    timeout_s: ClassVar[float] = 2 * 3600.0

    def create(self, context: Context, new: StoredWheelhouseInputs) -> tuple[str, Outputs]:
        if not open_store(new.store).has(wheelhouse_key(new.wheelhouse)):
            slipway = str(Path(sys.executable).with_name("slipway"))
            command = [slipway, "wheels", "build", *new.arguments, "--expect", new.wheelhouse, "--push", new.store]
            children.run(context, f"wheelhouse {new.wheelhouse}", command, os.environ, str(ROOT))
        return new.wheelhouse, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        there = open_store(str(outputs["store"])).has(wheelhouse_key(str(outputs["wheelhouse"])))
        return {} if there else None

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Other stacks and runs may name it."""
