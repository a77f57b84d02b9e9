"""Target `gke-tpu`: a GKE cluster with a pool of TPU nodes for each slice, and a JobSet. Not run on real hardware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from infra.emulated import GKE, PLUGIN, QUESTIONS, STAND_IN, STORAGE
from infra.targets.contract import PaidContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.billed import Billed
    from infra.targets.gke_tpu.settings import GkeTpuSettings
    from infra.targets.host_variables import HostVariable
    from infra.targets.hosts import Hosts
    from infra.targets.needs import Needs
    from training.run_spec import RunSpec


class GkeTpu(PaidContract["GkeTpuSettings", "TrainingPlan[GkeTpuSettings]"]):
    asks = frozenset((STORAGE, QUESTIONS, STAND_IN, PLUGIN, GKE))
    plugins = frozenset(("gcp", "kubernetes"))
    stacks_begin = "gke"

    def settings(self) -> type[GkeTpuSettings]:
        from infra.targets.gke_tpu.settings import GkeTpuSettings

        return GkeTpuSettings

    def declare(self, plan: TrainingPlan[GkeTpuSettings]) -> None:
        from infra.targets.gke_tpu.declare import declare

        declare(plan)

    def notices(self, settings: GkeTpuSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.gke_tpu import plan

        return plan.notices(settings)

    def needs(self, settings: GkeTpuSettings) -> Needs:
        from infra.targets.gke_tpu import doctor

        return doctor.needs(settings)

    def variables(self, settings: GkeTpuSettings) -> Sequence[HostVariable]:
        from infra.pods.pod_variables import variables

        return variables(settings)

    def hosts(self, stack: str) -> Hosts:
        from infra.targets.gke_tpu.reach import hosts

        return hosts(stack)

    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        from infra.targets.gke_tpu import clusters

        return clusters.billed(place, say)

    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        from infra.targets.gke_tpu import clusters

        return clusters.remove(names, say)


TARGET = GkeTpu()
