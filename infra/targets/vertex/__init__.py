"""Target `vertex`: GPU machines of a custom job of Vertex AI, whose containers train. Not run on real hardware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from infra.emulated import QUESTIONS, STORAGE, VERTEX
from infra.targets.contract import PaidContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.billed import Billed
    from infra.targets.host_variables import HostVariable
    from infra.targets.hosts import Hosts
    from infra.targets.needs import Needs
    from infra.targets.vertex.settings import VertexSettings
    from training.run_spec import RunSpec


class Vertex(PaidContract["VertexSettings", "TrainingPlan[VertexSettings]"]):
    asks = frozenset((VERTEX, STORAGE, QUESTIONS))
    stacks_begin = "vertex"
    emulator = "slipway emulate vertex --run"

    def settings(self) -> type[VertexSettings]:
        from infra.targets.vertex.settings import VertexSettings

        return VertexSettings

    def declare(self, plan: TrainingPlan[VertexSettings]) -> None:
        from infra.targets.vertex.declare import declare

        declare(plan)

    def notices(self, settings: VertexSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.vertex import plan

        return plan.notices(settings, spec)

    def variables(self, settings: VertexSettings) -> Sequence[HostVariable]:
        from infra.targets.vertex import plan

        return plan.variables(settings)

    def needs(self, settings: VertexSettings) -> Needs:
        from infra.targets.vertex import doctor

        return doctor.needs(settings)

    def hosts(self, stack: str) -> Hosts:
        from infra.targets.vertex.hosts import VertexHosts

        return VertexHosts(stack)

    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        from infra.targets.vertex import orphans

        return orphans.billed(place, say)

    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        from infra.targets.vertex import orphans

        return orphans.remove(names, say)

    def resources(self) -> tuple[Any, ...]:
        from infra.targets.vertex.provider.vertex_guard_resource import VertexStackGuardResource
        from infra.targets.vertex.provider.vertex_job_resource import VertexJobResource

        return VertexStackGuardResource(), VertexJobResource()


TARGET = Vertex()
