"""From what was decided of a GKE cluster to the component's arguments. Not run on real hardware.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.components.job_set_inputs import job_set_inputs
from infra.components.prepared_run import prepared_run_args
from infra.gke import accounts
from infra.gke.cluster_inputs import cluster_inputs, service_inputs, system_pool_inputs
from infra.gke.component import AccountArgs, GkeArgs, TrainingArgs
from infra.gke.data_networks import DataNetwork
from infra.gke.node_pools import AcceleratorPool
from infra.gke.settings import GkeSettings, PoolWorkload
from infra.names import stack_label
from infra.pods.pod_group import Manifest
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import TrainingPlan
from infra.providers.inputs import StackGuardInputs


def cluster_args(
    kind: str,
    plan: TrainingPlan[GkeSettings],
    pools: Sequence[AcceleratorPool],
    networks: Sequence[DataNetwork] = (),
    node_objects: Sequence[Manifest] = (),
) -> GkeArgs:
    """The component's arguments of a plan. kind: of the component; pools: one for each slice; networks: of the nodes'
    further cards; node_objects: what Kubernetes is told of nodes, where anything runs on them."""
    settings = plan.settings
    return GkeArgs(
        kind=kind,
        guard=StackGuardInputs(settings.target, settings.billed_in, stack_label(settings.stack), settings.owner),
        service=service_inputs(settings),
        nodes=_account(settings, "nodes", "Nodes", accounts.node_grants(settings)),
        cluster=cluster_inputs(settings),
        system_pool=system_pool_inputs(settings),
        networks=networks,
        pools=pools,
        node_objects=node_objects,
        training=_training(plan) if settings.workload is PoolWorkload.PODS else None,
    )


def _training(plan: TrainingPlan[GkeSettings]) -> TrainingArgs:
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


def _account(settings: GkeSettings, kind: str, who: str, grants: list[accounts.Grant]) -> AccountArgs:
    inputs = {
        "accountId": settings.account_id(kind),
        "project": settings.project,
        "displayName": f"{who} of stack {settings.stack}",
    }
    return AccountArgs(kind, inputs, grants)
