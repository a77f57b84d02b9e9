"""slipway:artifacts:Bundle: training sources, run spec and lock in an artifact store, under the hash of the preview.

A delete keeps the bundle, as runs name it; `slipway gc` removes what nothing names. The store's record that this stack
uses it (infra/artifacts/uses.py) is removed once the stack uses another bundle, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.artifacts import uses
from infra.artifacts.layout import bundle_key
from infra.artifacts.opening import open_store
from infra.artifacts.uses import Use
from infra.host_software.bundle import BundleContents, collect, put
from infra.paths import TRAINING
from infra.providers.inputs import StoredBundleInputs
from infra.providers.made_at import StoredResource
from infra.providers.resource import Context, Outputs, ResourceError


class StoredBundleResource(StoredResource[StoredBundleInputs]):
    inputs = StoredBundleInputs

    def create(self, context: Context, new: StoredBundleInputs) -> tuple[str, Outputs]:
        self._ensure(new)
        _say_used(new, None)
        return new.bundle, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {} if open_store(str(outputs["store"])).has(bundle_key(str(outputs["bundle"]))) else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: StoredBundleInputs) -> Outputs:
        self._ensure(new)
        _say_used(new, outputs)
        return {}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        if use := _use(outputs):
            uses.forget(open_store(str(outputs["store"])), use)

    def _ensure(self, new: StoredBundleInputs) -> None:
        store = open_store(new.store)
        if store.has(bundle_key(new.bundle)):
            return
        model = Path(new.model_file) if new.model_file else None
        contents = BundleContents(new.run_spec, new.wheelhouse, Path(new.lock), model, new.python, new.overlay)
        bundle = collect(TRAINING, contents)
        if bundle.hash != new.bundle:
            raise ResourceError(
                f"the sources of training/ have changed since the preview (bundle {new.bundle} is now {bundle.hash}); "
                f"run `pulumi up` again"
            )
        put(bundle, store)


def _use(values: Mapping[str, Any]) -> Use | None:
    """None in a store that nobody else uses."""
    owner, _, stack = str(values.get("user", "")).partition("/")
    return Use(owner, stack, values["wheelhouse"], values["bundle"], values.get("state", "")) if owner else None


def _say_used(new: StoredBundleInputs, before: Mapping[str, Any] | None) -> None:
    """Record that this state uses the bundle; remove its record of the one before, and that it was about to."""
    if use := _use(vars(new)):
        store = open_store(new.store)
        uses.record(store, use)
        for ended in (replace(use, state=""), _use(before or {}) or use):
            uses.forget(store, ended, kept=use)
