"""Target `local`, declared: hands what was decided to the component."""

from __future__ import annotations

from infra.components.run_inputs import prepared_data_inputs, run_inputs
from infra.components.stored_software import stored_software_args
from infra.paths import INSTALLED, WORK, of_stack
from infra.preview.stack_plan import TrainingPlan
from infra.targets.local.component import LocalStack, LocalStackArgs
from infra.targets.local.plan import port
from infra.targets.local.provider.local_inputs import LocalHostInputs, LocalStackGuardInputs
from infra.targets.local.settings import LocalSettings


def declare(plan: TrainingPlan[LocalSettings]) -> None:
    """Declare the stack's resources."""
    LocalStack(plan.settings.stack, stack_args(plan))


def stack_args(plan: TrainingPlan[LocalSettings]) -> LocalStackArgs:
    """The component's arguments of a plan."""
    settings, spec, software = plan.settings, plan.spec, plan.software
    paths, places = of_stack(settings.stack), settings.places
    hosts = tuple(
        LocalHostInputs(
            directory=str(paths.host(index)),
            index=index,
            count=spec.hosts,
            coordinator=f"127.0.0.1:{port(settings, paths)}",
            run_spec=software.contents.run_spec,
            artifacts=places.artifacts_on_hosts,
            bundle=software.bundle,
            root=str(INSTALLED),
            cache=str(WORK / "cache"),
        )
        for index in range(spec.hosts)
    )
    return LocalStackArgs(
        guard=LocalStackGuardInputs(str(paths.root), settings.on_destroy, places.runs if settings.runs else ""),
        software=stored_software_args(software, places.artifacts),
        data=prepared_data_inputs(settings, spec, software, settings.on_destroy),
        run=run_inputs(spec, software),
        hosts=hosts,
    )
