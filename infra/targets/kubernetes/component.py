"""A run in a cluster that exists: guard, wheelhouse, bundle, data, run record, and what Kubernetes is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.components.cluster_objects import declare_objects
from infra.components.prepared_run import PreparedRunArgs, prepare_run
from infra.components.resources import JobSetInstallation, StackGuard, child_after
from infra.pods.pod_group import Manifest
from infra.providers.inputs import JobSetInstallationInputs, StackGuardInputs


@dataclass(frozen=True)
class ClusterRunArgs:
    """context: of the kubeconfig. job_set: None where it is not ours to install. manifests: in the order in which they
    are made; their label of the state follows."""

    context: str
    guard: StackGuardInputs
    prepared: PreparedRunArgs
    job_set: JobSetInstallationInputs | None
    has_job_set: bool
    manifests: Sequence[Manifest]


class ClusterRun(pulumi.ComponentResource):
    """Pods find bundle and data where they are told before they exist. Does not wait for them to be scheduled."""

    def __init__(self, name: str, args: ClusterRunArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:kubernetes:Run", name, None, opts)
        guard = StackGuard("guard", args.guard, child_after(self))
        run = prepare_run(args.prepared, self, guard, guard.identity)
        # Named after its context: another one is another cluster, where all of it is made anew.
        cluster = pulumi.ProviderResource("kubernetes", args.context, {"context": args.context}, child_after(self))
        after, version = [guard, *run], None
        if args.job_set:
            following = {"identity": guard.identity}
            job_set = JobSetInstallation("jobset", args.job_set, child_after(self, *after), following)
            after, version = [*after, job_set], None if args.has_job_set else job_set.installed
        declare_objects(args.manifests, self, after, cluster, guard.identity, version)
        self.register_outputs({})
