"""Target `gke-tpu`: a GKE cluster with a pool of TPU nodes for each slice, and a JobSet. Not run on real hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gke.gke_contract import GkeContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.gke_tpu.settings import GkeTpuSettings
    from training.run_spec import RunSpec


class GkeTpu(GkeContract["GkeTpuSettings"]):
    def settings(self) -> type[GkeTpuSettings]:
        from infra.targets.gke_tpu.settings import GkeTpuSettings

        return GkeTpuSettings

    def declare(self, plan: TrainingPlan[GkeTpuSettings]) -> None:
        from infra.targets.gke_tpu.declare import declare

        declare(plan)

    def notices(self, settings: GkeTpuSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.gke import plan

        return plan.notices(settings)


TARGET = GkeTpu()
