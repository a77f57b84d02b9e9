"""Target `kubernetes`: hands what was decided to the component. Not run on real hardware."""

from __future__ import annotations

from infra.components.claimed_artifacts import use_of
from infra.components.run_inputs import prepared_data_inputs, run_inputs
from infra.components.stored_software import stored_software_args
from infra.names import stack_label
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import StackGuardInputs
from infra.stack_file.settings import OnDestroy
from infra.targets.kubernetes.component import ClusterRun, ClusterRunArgs
from infra.targets.kubernetes.plan import declared
from infra.targets.kubernetes.settings import KubernetesSettings


def declare(plan: TrainingPlan[KubernetesSettings]) -> None:
    """Declare the stack's resources."""
    settings, software = plan.settings, plan.software
    guard = StackGuardInputs(settings.target, settings.billed_in, stack_label(settings.stack), settings.owner)
    args = ClusterRunArgs(
        context=settings.context,
        guard=guard,
        software=stored_software_args(software, settings.places.artifacts, use_of(settings, software).user),
        data=prepared_data_inputs(settings, plan.spec, software, OnDestroy.KEEP),
        run=run_inputs(plan.spec, software),
        manifests=declared(settings, software),
    )
    ClusterRun(settings.stack, args)
