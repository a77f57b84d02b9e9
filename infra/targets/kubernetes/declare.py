"""Target `kubernetes`: hands what was decided to the component. Not run on real hardware."""

from __future__ import annotations

from infra.components.job_set_inputs import job_set_inputs
from infra.components.prepared_run import prepared_run_args
from infra.names import stack_label
from infra.pods.cluster import Cluster
from infra.pods.pod_findings import check_job_set, check_named_objects, named_by, networks_named_by
from infra.pods.pod_group import JobKind, Manifest
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import StackGuardInputs
from infra.targets.kubernetes.component import ClusterRun, ClusterRunArgs
from infra.targets.kubernetes.settings import KubernetesSettings


def declare(plan: TrainingPlan[KubernetesSettings]) -> None:
    """Declare the stack's resources. Raises TargetError for what its pods name and the cluster does not have."""
    settings = plan.settings
    manifests = run_manifests(settings, plan.software)
    has_job_set = _checked(settings, manifests[-1])
    args = ClusterRunArgs(
        context=settings.context,
        guard=StackGuardInputs(settings.target, settings.billed_in, stack_label(settings.stack), settings.owner),
        prepared=prepared_run_args(settings, plan.spec, plan.software),
        job_set=job_set_inputs(settings, manifests, settings.context),
        has_job_set=has_job_set,
        manifests=manifests,
    )
    ClusterRun(settings.stack, args)


def _checked(settings: KubernetesSettings, pods: Manifest) -> bool:
    """Whether the cluster has JobSet, once it has what else the pods name."""
    needs_job_set = settings.job_kind is JobKind.JOBSET
    if not (needs_job_set or any((*named_by(settings.group), *networks_named_by(settings.group)))):
        return False
    cluster = Cluster(settings.context)
    check_named_objects(cluster, settings.group)
    return needs_job_set and check_job_set(cluster, settings.namespace, pods, settings.installs_job_set)
