"""Target `gke-tpu`: from what was decided to the component's arguments. Not run on real hardware.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
"""

from __future__ import annotations

from infra.components.job_set_inputs import job_set_inputs
from infra.components.prepared_run import prepared_run_args
from infra.names import stack_label
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import StackGuardInputs
from infra.targets.gke_tpu import accounts
from infra.targets.gke_tpu.cluster_inputs import cluster_inputs, service_inputs, system_pool_inputs
from infra.targets.gke_tpu.component import AccountArgs, GkeTpuArgs, GkeTpuCluster, TrainingArgs
from infra.targets.gke_tpu.settings import GkeTpuSettings, PoolWorkload
from infra.targets.gke_tpu.tpu_pools import tpu_pools


def declare(plan: TrainingPlan[GkeTpuSettings]) -> None:
    """Declare the stack's resources."""
    GkeTpuCluster(plan.settings.stack, cluster_args(plan))


def cluster_args(plan: TrainingPlan[GkeTpuSettings]) -> GkeTpuArgs:
    """The component's arguments of a plan."""
    settings = plan.settings
    return GkeTpuArgs(
        guard=StackGuardInputs(settings.target, settings.billed_in, stack_label(settings.stack), settings.owner),
        service=service_inputs(settings),
        nodes=_account(settings, "nodes", "Nodes", accounts.node_grants(settings)),
        cluster=cluster_inputs(settings),
        system_pool=system_pool_inputs(settings),
        pools=tpu_pools(settings),
        training=_training(plan) if settings.workload is PoolWorkload.PODS else None,
    )


def _training(plan: TrainingPlan[GkeTpuSettings]) -> TrainingArgs:
    settings = plan.settings
    manifests = run_manifests(settings, plan.software)
    own = _account(settings, "train", "Training", accounts.pod_grants(settings))
    return TrainingArgs(
        prepared=prepared_run_args(settings, plan.spec, plan.software),
        pods=None if settings.service_account else own,
        becoming=accounts.becoming(settings),
        job_set=job_set_inputs(settings, manifests),
        manifests=manifests,
    )


def _account(settings: GkeTpuSettings, kind: str, who: str, grants: list[accounts.Grant]) -> AccountArgs:
    inputs = {
        "accountId": settings.account_id(kind),
        "project": settings.project,
        "displayName": f"{who} of stack {settings.stack}",
    }
    return AccountArgs(kind, inputs, grants)
