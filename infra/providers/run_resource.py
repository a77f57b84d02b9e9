"""slipway:run:Run: the record of one training across restarts (infra/runs/records.py). Deleting it keeps the files."""

from __future__ import annotations

from infra.providers.inputs import RunInputs
from infra.providers.resource import Context, Outputs, Resource, ResourceError
from infra.runs import records
from training.run_spec import RunSpec, parse


class RunResource(Resource[RunInputs]):
    inputs = RunInputs

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
        spec: RunSpec = parse(new.run_spec)
        refusal = records.conflict(records.read(spec), spec)
        if refusal:
            raise ResourceError(refusal)
        return {"run_id": records.write(spec, records.Installed(new.wheelhouse, new.bundle, tuple(new.overlay)))["id"]}
