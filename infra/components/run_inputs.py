"""The inputs of what a run stands on, the same for every target: its record, and the text that it reads."""

from __future__ import annotations

from infra.host_software.derive import HostSoftware
from infra.paths import INSTALLED
from infra.providers.inputs import PreparedDataInputs, RunInputs
from infra.runs import records, run_data
from infra.stack_file.settings import Settings
from infra.targets.places import in_bucket
from training.data.demand import demand_of
from training.run_spec import RunSpec


def run_inputs(spec: RunSpec, software: HostSoftware) -> RunInputs:
    text = software.contents.run_spec
    return RunInputs(records.location(spec), text, software.wheelhouse.id, software.bundle, software.overlay)


def prepared_data_inputs(
    settings: Settings, spec: RunSpec, software: HostSoftware, on_destroy: str
) -> PreparedDataInputs | None:
    """None for synthetic data. It is prepared on this machine, in the environment that hosts install."""
    if spec.data is None:
        return None
    demand = demand_of(spec)
    return PreparedDataInputs(
        directory=run_data.stored_at(settings, spec.data.content),
        tokens_needed=demand.tokens,
        max_epochs=demand.max_epochs,
        on_destroy=on_destroy,
        arguments=run_data.prepare_arguments(settings),
        artifacts=settings.places.artifacts,
        bundle=software.bundle,
        root=str(INSTALLED),
        hosts=demand.hosts,
        vocab_size=demand.vocab_size,
        copied_by=demand.hosts if in_bucket(spec.data.directory) else 0,
        prepared_in=run_data.prepared_in(settings, spec.data),
        region=settings.places.region,
    )
