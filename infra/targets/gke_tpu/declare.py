"""Target `gke-tpu`: hands what was decided to the component. Not run on real hardware.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
"""

from __future__ import annotations

from infra.gke.cluster_args import cluster_args
from infra.gke.component import GkeArgs, GkeCluster
from infra.preview.stack_plan import TrainingPlan
from infra.targets.gke_tpu.settings import GkeTpuSettings
from infra.targets.gke_tpu.tpu_pools import tpu_pools


def declare(plan: TrainingPlan[GkeTpuSettings]) -> None:
    """Declare the stack's resources."""
    GkeCluster(plan.settings.stack, tpu_cluster_args(plan))


def tpu_cluster_args(plan: TrainingPlan[GkeTpuSettings]) -> GkeArgs:
    """The component's arguments of a plan."""
    return cluster_args("TpuCluster", plan, tpu_pools(plan.settings))
