"""Target `local`, declared: hands what was decided to the component."""

from __future__ import annotations

from pathlib import Path

from infra.components.stored_software import stored_software_args
from infra.paths import WORK, of_stack
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import PreparedDataInputs, RunInputs
from infra.runs import records
from infra.targets.local.component import LocalStack, LocalStackArgs
from infra.targets.local.plan import port, prepare_arguments
from infra.targets.local.provider.local_inputs import LocalHostInputs, LocalStackGuardInputs
from infra.targets.local.settings import LocalSettings


def declare(plan: TrainingPlan[LocalSettings]) -> None:
    """Declare the stack's resources."""
    LocalStack(plan.settings.stack, stack_args(plan, WORK))


def stack_args(plan: TrainingPlan[LocalSettings], work: Path) -> LocalStackArgs:
    """The component's arguments of a plan."""
    settings, spec, software = plan.settings, plan.spec, plan.software
    paths = of_stack(settings.stack, work)
    text, store, root = spec.to_yaml(), str(work / "artifacts"), str(work / "installed")
    data = spec.data and PreparedDataInputs(
        directory=spec.data.directory,
        tokens_needed=spec.steps * spec.tokens_per_step,
        max_epochs=spec.data.max_epochs,
        on_destroy=settings.on_destroy,
        arguments=prepare_arguments(settings),
        artifacts=store,
        bundle=software.bundle,
        root=root,
    )
    hosts = tuple(
        LocalHostInputs(
            directory=str(paths.host(index)),
            index=index,
            count=spec.hosts,
            coordinator=f"127.0.0.1:{port(settings, paths)}",
            run_spec=text,
            artifacts=store,
            bundle=software.bundle,
            root=root,
            cache=str(work / "cache"),
        )
        for index in range(spec.hosts)
    )
    return LocalStackArgs(
        guard=LocalStackGuardInputs(str(paths.root), settings.on_destroy),
        software=stored_software_args(software, store),
        data=data,
        run=RunInputs(str(records.directory(spec)), text, software.wheelhouse.id, software.bundle, software.overlay),
        hosts=hosts,
    )
