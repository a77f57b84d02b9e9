"""slipway:artifacts:Wheelhouse: the locked wheels of one platform in an artifact store, named by what they are made of.

Built where it is absent, in a process that Ctrl-C ends and the next `up` goes on with. Its delete keeps it: other
stacks and runs may name it, and `slipway gc` knows which.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.store import open_store
from infra.paths import ROOT
from infra.providers import children
from infra.providers.made_at import stored_at
from infra.providers.resource import Context, Outputs, Resource, Service, ignored, replaces, updates


@dataclass(frozen=True)
class WheelhouseInputs:
    store: str = replaces()  # a directory or gs://bucket/prefix
    wheelhouse: str = updates()  # its id
    arguments: list[str] = ignored()  # of `slipway wheels build`; what they say is in the id


class Wheelhouse(Resource[WheelhouseInputs]):
    token: ClassVar[str] = "slipway:artifacts:Wheelhouse"
    inputs = WheelhouseInputs
    timeout_s: ClassVar[float] = 2 * 3600.0

    def service(self, values: Mapping[str, Any]) -> Service | None:
        return stored_at(str(values["store"]))

    def create(self, context: Context, new: WheelhouseInputs) -> tuple[str, Outputs]:
        self._ensure(context, new)
        return new.wheelhouse, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        there = open_store(str(outputs["store"])).has(wheelhouse_key(str(outputs["wheelhouse"])))
        return {} if there else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: WheelhouseInputs) -> Outputs:
        self._ensure(context, new)
        return {}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        del context, identifier, outputs

    def _ensure(self, context: Context, new: WheelhouseInputs) -> None:
        if open_store(new.store).has(wheelhouse_key(new.wheelhouse)):
            return
        slipway = str(Path(sys.executable).with_name("slipway"))
        command = [slipway, "wheels", "build", *new.arguments, "--expect", new.wheelhouse, "--push", new.store]
        children.run(context, f"wheelhouse {new.wheelhouse}", command, os.environ, str(ROOT))
