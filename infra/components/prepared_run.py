"""What a run needs before anything is asked for that costs money: wheels and bundle, text, the run's record.

The same for every target whose stacks are paid for, so another run's name or too little text stops them all. Refuses
to own what hosts install (infra/host_software/derive.py) and what hosts are.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.claimed_artifacts import use_of
from infra.components.resources import PreparedData, Run, child_after
from infra.components.run_inputs import prepared_data_inputs, run_inputs
from infra.components.stored_software import StoredSoftwareArgs, store_software, stored_software_args
from infra.host_software.derive import HostSoftware
from infra.providers.inputs import PreparedDataInputs, RunInputs
from infra.stack_file.settings import OnDestroy
from infra.stack_file.terms import Terms
from training.run_spec import RunSpec


@dataclass(frozen=True)
class PreparedRunArgs:
    """data: None where the run reads none."""

    software: StoredSoftwareArgs
    data: PreparedDataInputs | None
    run: RunInputs


def prepared_run_args(settings: Terms, spec: RunSpec, software: HostSoftware) -> PreparedRunArgs:
    """Of a stack that keeps its data and its runs when it is destroyed."""
    return PreparedRunArgs(
        software=stored_software_args(software, settings.places.artifacts, use_of(settings, software).user),
        data=prepared_data_inputs(settings, spec, software, OnDestroy.KEEP),
        run=run_inputs(spec, software),
    )


def prepare_run(
    args: PreparedRunArgs, parent: pulumi.Resource, guard: pulumi.Resource, identity: pulumi.Output[str]
) -> list[pulumi.Resource]:
    """Declare it behind the stack's guard, whose identity it is; what is bought comes after all of these."""
    software = store_software(args.software, parent, guard, identity)
    data = [PreparedData("data", args.data, child_after(parent, guard))] if args.data else []
    return [*software, *data, Run("run", args.run, child_after(parent, guard, *data))]
