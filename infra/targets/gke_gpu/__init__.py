"""Target `gke-gpu`: a GKE cluster with a pool of GPU nodes for each slice, their networks, and a JobSet.

Not run on real hardware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gke.gke_contract import GkeContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.gke_gpu.settings import GkeGpuSettings
    from training.run_spec import RunSpec


class GkeGpu(GkeContract["GkeGpuSettings"]):
    def settings(self) -> type[GkeGpuSettings]:
        from infra.targets.gke_gpu.settings import GkeGpuSettings

        return GkeGpuSettings

    def declare(self, plan: TrainingPlan[GkeGpuSettings]) -> None:
        from infra.targets.gke_gpu.declare import declare

        declare(plan)

    def notices(self, settings: GkeGpuSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.gke_gpu import plan

        return plan.notices(settings, spec)


TARGET = GkeGpu()
