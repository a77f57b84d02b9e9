"""Target `kubernetes`: hands what was decided to the component. Not run on real hardware."""

from __future__ import annotations

from infra.components.prepared_run import prepared_run_args
from infra.names import stack_label
from infra.pods.cluster import Cluster
from infra.pods.pod_findings import check_named_objects, named_by
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import StackGuardInputs
from infra.targets.kubernetes.component import ClusterRun, ClusterRunArgs
from infra.targets.kubernetes.settings import KubernetesSettings


def declare(plan: TrainingPlan[KubernetesSettings]) -> None:
    """Declare the stack's resources. Raises TargetError for what its pods name and the cluster does not have."""
    settings = plan.settings
    if any(named_by(settings.group)):
        check_named_objects(Cluster(settings.context), settings.group)
    args = ClusterRunArgs(
        context=settings.context,
        guard=StackGuardInputs(settings.target, settings.billed_in, stack_label(settings.stack), settings.owner),
        prepared=prepared_run_args(settings, plan.spec, plan.software),
        manifests=run_manifests(settings, plan.software),
    )
    ClusterRun(settings.stack, args)
