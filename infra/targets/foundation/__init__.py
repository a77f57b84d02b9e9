"""Target `foundation`: what outlives every training in one region. Destroying a training cannot reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.emulated import PLUGIN, QUESTIONS, STAND_IN, STORAGE
from infra.targets.contract import StateBucket, TargetContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import StackPlan
    from infra.targets.foundation.settings import FoundationSettings
    from infra.targets.needs import Needs
    from training.run_spec import RunSpec


class Foundation(TargetContract["FoundationSettings", "StackPlan[FoundationSettings]"]):
    asks = frozenset((STORAGE, QUESTIONS, STAND_IN, PLUGIN))
    plugins = frozenset(("gcp",))

    def settings(self) -> type[FoundationSettings]:
        from infra.targets.foundation.settings import FoundationSettings

        return FoundationSettings

    def notices(self, settings: FoundationSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.foundation import plan

        return plan.notices(settings)

    def declare(self, plan: StackPlan[FoundationSettings]) -> None:
        from infra.targets.foundation.declare import declare

        declare(plan.settings)

    def needs(self, settings: FoundationSettings) -> Needs:
        from infra.targets.foundation import doctor

        return doctor.needs(settings)

    def state_bucket(self) -> StateBucket:
        from infra.targets.foundation import state_bucket

        return state_bucket


TARGET = Foundation()
