"""Target `local`, declared: hands what plan.py has decided to the component."""

from __future__ import annotations

from pathlib import Path

from infra.components.resources import (
    BundleArgs,
    LocalHostArgs,
    PreparedDataArgs,
    RunArgs,
    StackGuardArgs,
    WheelhouseArgs,
)
from infra.paths import WORK
from infra.runs import records
from infra.targets.local.component import LocalStack, LocalStackArgs
from infra.targets.local.plan import LocalPlan, describe, plan
from infra.targets.local.settings import LocalSettings
from training.run_spec import RunSpec


def declare(settings: LocalSettings) -> tuple[RunSpec, tuple[str, ...]]:
    """Plan the stack and declare its resources."""
    made = plan(settings)
    LocalStack(settings.stack, stack_args(made, WORK))
    return made.spec, (describe(made.spec), *made.notices)


def stack_args(made: LocalPlan, work: Path) -> LocalStackArgs:
    """The component's arguments of a plan."""
    spec, text = made.spec, made.spec.to_yaml()
    software, store, root = made.software, str(work / "artifacts"), str(work / "installed")
    contents, wheels = software.contents, software.wheelhouse
    data = spec.data and PreparedDataArgs(
        directory=spec.data.directory,
        tokens_needed=spec.steps * spec.tokens_per_step,
        max_epochs=spec.data.max_epochs,
        on_destroy=made.on_destroy,
        arguments=list(made.prepare),
        artifacts=store,
        bundle=software.bundle,
        root=root,
    )
    hosts_args = tuple(
        LocalHostArgs(
            directory=str(made.paths.host(i)),
            index=i,
            count=spec.hosts,
            coordinator=made.coordinator,
            run_spec=text,
            artifacts=store,
            bundle=software.bundle,
            root=root,
            cache=str(work / "cache"),
        )
        for i in range(spec.hosts)
    )
    return LocalStackArgs(
        guard=StackGuardArgs(str(made.paths.root), made.on_destroy),
        wheelhouse=WheelhouseArgs(store, wheels.id, software.build_arguments),
        bundle=BundleArgs(
            store=store,
            bundle=software.bundle,
            run_spec=text,
            wheelhouse=wheels.id,
            lock=str(contents.lock),
            model_file=str(contents.model_file or ""),
        ),
        data=data,
        run=RunArgs(str(records.directory(spec)), text, wheels.id, software.bundle, software.overlay),
        hosts=hosts_args,
    )
