"""Target `local`: host processes on this machine, a directory for a bucket; no cloud, no account, no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.targets.contract import TrainingContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.hosts import Hosts
    from infra.targets.local.settings import LocalSettings
    from training.run_spec import RunSpec


class Local(TrainingContract["LocalSettings", "TrainingPlan[LocalSettings]"]):
    def settings(self) -> type[LocalSettings]:
        from infra.targets.local.settings import LocalSettings

        return LocalSettings

    def notices(self, settings: LocalSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.local import plan

        return plan.notices(settings, spec) if spec else ()

    def declare(self, plan: TrainingPlan[LocalSettings]) -> None:
        from infra.targets.local.declare import declare

        declare(plan)

    def hosts(self, stack: str) -> Hosts:
        from infra.paths import of_stack
        from infra.targets.local.hosts import LocalHosts

        return LocalHosts(stack, of_stack(stack))

    def resources(self) -> tuple[Any, ...]:
        from infra.targets.local.provider.local_guard_resource import LocalStackGuardResource
        from infra.targets.local.provider.local_host_resource import LocalHostResource

        return LocalStackGuardResource(), LocalHostResource()


TARGET = Local()
