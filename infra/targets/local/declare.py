"""Target `local`, declared: hands what plan.py has decided to the component."""

from __future__ import annotations

from pathlib import Path

from infra.components.stored_software import stored_software_args
from infra.paths import WORK
from infra.providers.inputs import PreparedDataInputs, RunInputs
from infra.runs import records
from infra.targets.local.component import LocalStack, LocalStackArgs
from infra.targets.local.plan import LocalPlan, describe, plan
from infra.targets.local.provider.local_inputs import LocalHostInputs, LocalStackGuardInputs
from infra.targets.local.settings import LocalSettings
from training.run_spec import RunSpec


def declare(settings: LocalSettings) -> tuple[RunSpec, tuple[str, ...]]:
    """Plan the stack and declare its resources."""
    local_plan = plan(settings)
    LocalStack(settings.stack, stack_args(local_plan, WORK))
    return local_plan.spec, (describe(local_plan.spec), *local_plan.notices)


def stack_args(local_plan: LocalPlan, work: Path) -> LocalStackArgs:
    """The component's arguments of a plan."""
    spec, software = local_plan.spec, local_plan.software
    text, store, root = spec.to_yaml(), str(work / "artifacts"), str(work / "installed")
    data = spec.data and PreparedDataInputs(
        directory=spec.data.directory,
        tokens_needed=spec.steps * spec.tokens_per_step,
        max_epochs=spec.data.max_epochs,
        on_destroy=local_plan.on_destroy,
        arguments=list(local_plan.prepare),
        artifacts=store,
        bundle=software.bundle,
        root=root,
    )
    hosts = tuple(
        LocalHostInputs(
            directory=str(local_plan.paths.host(index)),
            index=index,
            count=spec.hosts,
            coordinator=local_plan.coordinator,
            run_spec=text,
            artifacts=store,
            bundle=software.bundle,
            root=root,
            cache=str(work / "cache"),
        )
        for index in range(spec.hosts)
    )
    return LocalStackArgs(
        guard=LocalStackGuardInputs(str(local_plan.paths.root), local_plan.on_destroy),
        software=stored_software_args(software, store),
        data=data,
        run=RunInputs(str(records.directory(spec)), text, software.wheelhouse.id, software.bundle, software.overlay),
        hosts=hosts,
    )
