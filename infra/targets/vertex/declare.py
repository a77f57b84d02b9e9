"""Target `vertex`: hands what was decided to the component. Not run on real hardware."""

from __future__ import annotations

from infra.components.prepared_run import prepared_run_args
from infra.names import stack_label
from infra.preview.stack_plan import TrainingPlan
from infra.targets.vertex.component import VertexTraining, VertexTrainingArgs
from infra.targets.vertex.plan import requested
from infra.targets.vertex.provider.vertex_inputs import VertexStackGuardInputs
from infra.targets.vertex.settings import VertexSettings


def declare(plan: TrainingPlan[VertexSettings]) -> None:
    """Declare the stack's resources."""
    VertexTraining(plan.settings.stack, training_args(plan))


def training_args(plan: TrainingPlan[VertexSettings]) -> VertexTrainingArgs:
    """The component's arguments of a plan."""
    settings, software = plan.settings, plan.software
    regions = list(settings.regions_in_order)
    return VertexTrainingArgs(
        guard=VertexStackGuardInputs(settings.project, stack_label(settings.stack), regions, settings.owner),
        prepared=prepared_run_args(settings, plan.spec, software),
        job=requested(settings, software),
    )
