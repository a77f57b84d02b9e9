"""slipway:run:Run: the record of one training across restarts (infra/runs/records.py). Deleting it keeps the files."""

from __future__ import annotations

from infra.providers.inputs import RunInputs
from infra.providers.made_at import StoredResource
from infra.providers.resource import Context, Outputs
from infra.runs import records
from training.run_spec import parse


class RunResource(StoredResource[RunInputs]):
    inputs = RunInputs
    store_key = "directory"

    def create(self, context: Context, new: RunInputs) -> tuple[str, Outputs]:
        installed = records.Installed(new.wheelhouse, new.bundle, tuple(new.overlay))
        run_id = records.enter(parse(new.run_spec), installed)
        return run_id, {"run_id": run_id}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        record = records.read(parse(str(outputs["run_spec"])))
        return {"run_id": record["id"]} if record else None

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """A run outlives what it ran on."""
