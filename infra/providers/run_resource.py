"""slipway:run:Run: the record of one training across restarts (infra/runs/records.py). Deleting it keeps the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.providers.resource import Context, Outputs, Resource, ResourceError, ignored, replaces, updates
from infra.runs import records
from training.run_spec import RunSpec, parse


@dataclass(frozen=True)
class RunInputs:
    directory: str = replaces()
    run_spec: str = updates()
    wheelhouse: str = updates()
    bundle: str = updates()
    overlay: list[str] = ignored()  # what replaces locked wheels; its hashes are in the wheelhouse's id


class Run(Resource[RunInputs]):
    token: ClassVar[str] = "slipway:run:Run"
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
        del context, identifier, outputs  # a run outlives what it ran on

    def _enter(self, new: RunInputs) -> Outputs:
        spec: RunSpec = parse(new.run_spec)
        refusal = records.conflict(records.read(spec), spec)
        if refusal:
            raise ResourceError(refusal)
        return {"run_id": records.write(spec, records.Installed(new.wheelhouse, new.bundle, tuple(new.overlay)))["id"]}
