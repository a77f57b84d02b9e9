"""slipway:run:Run: the record of one training across restarts (infra/runs/records.py). Deleting it keeps the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.providers.inputs import RunInputs
from infra.providers.made_at import stored_at
from infra.providers.resource import Context, Outputs, RemoteService, Resource
from infra.runs import records
from training.run_spec import parse


class RunResource(Resource[RunInputs]):
    inputs = RunInputs

    def service(self, values: Mapping[str, Any]) -> RemoteService | None:
        return stored_at(str(values["directory"]))

    def create(self, context: Context, new: RunInputs) -> tuple[str, Outputs]:
        outputs = self._enter(new)
        return str(outputs["run_id"]), outputs

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        record = records.read(parse(str(outputs["run_spec"])))
        return {"run_id": record["id"]} if record else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: RunInputs) -> Outputs:
        return self._enter(new)

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """A run outlives what it ran on."""

    def _enter(self, new: RunInputs) -> Outputs:
        installed = records.Installed(new.wheelhouse, new.bundle, tuple(new.overlay))
        return {"run_id": records.enter(parse(new.run_spec), installed)}
