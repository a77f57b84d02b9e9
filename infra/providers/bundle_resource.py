"""slipway:artifacts:Bundle: training sources, run spec and lock in an artifact store, under the hash of the preview.

Its delete keeps it, as runs name it; `slipway gc` removes what nothing names. What the store says of this stack's use
(infra/artifacts/uses.py) goes once another bundle is in use, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from infra.artifacts import uses
from infra.artifacts.layout import bundle_key
from infra.artifacts.store import open_store
from infra.artifacts.uses import Use
from infra.host_software.bundle import BundleContents, collect, put
from infra.paths import TRAINING
from infra.providers.made_at import stored_at
from infra.providers.resource import Context, Outputs, Resource, ResourceError, Service, ignored, replaces, updates


@dataclass(frozen=True)
class BundleInputs:
    store: str = replaces()  # a directory or gs://bucket/prefix
    bundle: str = updates()  # its hash
    run_spec: str = ignored()
    wheelhouse: str = ignored()
    lock: str = ignored()
    model_file: str = ignored()  # or empty
    user: str = ignored(default="")  # owner/stack in a store that others use too, else empty

    @property
    def use(self) -> Use | None:
        owner, _, stack = self.user.partition("/")
        return Use(owner, stack, self.wheelhouse, self.bundle) if self.user else None


class Bundle(Resource[BundleInputs]):
    token: ClassVar[str] = "slipway:artifacts:Bundle"
    inputs = BundleInputs

    def service(self, values: Mapping[str, Any]) -> Service | None:
        return stored_at(str(values["store"]))

    def create(self, context: Context, new: BundleInputs) -> tuple[str, Outputs]:
        self._ensure(new)
        return new.bundle, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {} if open_store(str(outputs["store"])).has(bundle_key(str(outputs["bundle"]))) else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: BundleInputs) -> Outputs:
        self._ensure(new)
        if new.use:
            uses.forget(open_store(new.store), new.user, kept=new.use)
        return {}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        del context, identifier
        if user := str(outputs.get("user", "")):
            uses.forget(open_store(str(outputs["store"])), user)

    def _ensure(self, new: BundleInputs) -> None:
        store = open_store(new.store)
        if store.has(bundle_key(new.bundle)):
            return
        model = Path(new.model_file) if new.model_file else None
        made = collect(TRAINING, BundleContents(new.run_spec, new.wheelhouse, Path(new.lock), model))
        if made.hash != new.bundle:
            raise ResourceError(
                f"the sources of training/ have changed since the preview (bundle {new.bundle} is now {made.hash}); "
                f"run `pulumi up` again"
            )
        put(made, store)
