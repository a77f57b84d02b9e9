"""What every target that makes a GKE cluster says of itself alike; each has its settings, its pools and a plan's words.

Standard library only, as infra/targets/contract.py has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from infra.emulated import GKE, PLUGIN, QUESTIONS, STAND_IN, STORAGE
from infra.targets.contract import PaidContract

if TYPE_CHECKING:
    from infra.gke.settings import GkeSettings
    from infra.preview.stack_plan import TrainingPlan  # noqa: F401 (named in a text below)
    from infra.targets.billed import Billed
    from infra.targets.host_variables import HostVariable
    from infra.targets.hosts import Hosts
    from infra.targets.needs import Needs


class GkeContract[S: GkeSettings](PaidContract[S, "TrainingPlan[S]"]):
    """`billed` is one function for all of them, so a project is asked once for its clusters."""

    asks = frozenset((STORAGE, QUESTIONS, STAND_IN, PLUGIN, GKE))
    plugins = frozenset(("gcp", "kubernetes"))
    stacks_begin = "gke"

    def needs(self, settings: S) -> Needs:
        from infra.gke import doctor

        return doctor.needs(settings)

    def variables(self, settings: S) -> Sequence[HostVariable]:
        from infra.pods.pod_variables import variables

        return variables(settings)

    def hosts(self, stack: str) -> Hosts:
        from infra.gke.reach import hosts

        return hosts(stack)

    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        from infra.gke import clusters

        return clusters.billed(place, say)

    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        from infra.gke import clusters

        return clusters.remove(names, say)
