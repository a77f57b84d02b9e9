"""A run in a cluster that exists: guard, wheelhouse, bundle, data, run record, and what Kubernetes is told."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.components.resources import PreparedData, Run, StackGuard, child_after
from infra.components.stored_software import StoredSoftwareArgs, store_software
from infra.names import STATE_LABEL
from infra.pods.pod_group import Manifest
from infra.providers.inputs import PreparedDataInputs, RunInputs, StackGuardInputs

_PODS = ("JobSet", "Job")


@dataclass(frozen=True)
class ClusterRunArgs:
    """context: of the kubeconfig. manifests: in the order in which they are made; their label of the state follows."""

    context: str
    guard: StackGuardInputs
    software: StoredSoftwareArgs
    data: PreparedDataInputs | None
    run: RunInputs
    manifests: Sequence[Manifest]


class ClusterRun(pulumi.ComponentResource):
    """Pods find bundle and data where they are told before they exist. Does not wait for them to be scheduled.

    The resources are declared by their type token, as the SDK's classes would be: importing those takes seconds.
    """

    def __init__(self, name: str, args: ClusterRunArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:kubernetes:Run", name, None, opts)
        guard = StackGuard("guard", args.guard, child_after(self))
        software = store_software(args.software, self, guard, guard.identity)
        data = [PreparedData("data", args.data, child_after(self, guard))] if args.data else []
        run = Run("run", args.run, child_after(self, guard, *data))
        # Named after its context: another one is another cluster, where all of it is made anew.
        cluster = pulumi.ProviderResource("kubernetes", args.context, {"context": args.context}, child_after(self))
        made: list[pulumi.Resource] = [guard, *software, *data, run]
        for manifest in args.manifests:
            options = pulumi.ResourceOptions(parent=self, depends_on=list(made), provider=cluster)
            if manifest["kind"] in _PODS:
                # Pulumi's plugin does not see that hardly anything of these may change, and names are fixed.
                options.replace_on_changes, options.delete_before_replace = ["spec"], True
            made.append(_object(manifest, guard.identity, options))
        self.register_outputs({})


def _object(manifest: Manifest, identity: pulumi.Output[str], options: pulumi.ResourceOptions) -> pulumi.CustomResource:
    labelled: dict[str, Any] = copy.deepcopy(manifest)
    labelled["metadata"]["labels"] |= {STATE_LABEL: identity}
    if manifest["kind"] in _PODS:
        labelled["metadata"].setdefault("annotations", {})["pulumi.com/skipAwait"] = "true"  # or `up` ends with the run
    return pulumi.CustomResource(_token(manifest), _word(manifest), labelled, options)


def _token(manifest: Manifest) -> str:
    """As pulumi-kubernetes spells a kind: the core group has a name there."""
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"


def _word(manifest: Manifest) -> str:
    """The resource's name in the state, after what it is for."""
    words = {"ServiceAccount": "account", "ConfigMap": "script", "JobSet": "pods", "Service": "names"}
    return words.get(manifest["kind"]) or f"pods-{manifest['metadata']['name'].rpartition('-')[2]}"
