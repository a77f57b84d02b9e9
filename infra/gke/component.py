"""A GKE cluster and the run in it: guard, what the run needs, accounts, cluster, pools, what Kubernetes is told.

Declared by type token, as the SDK's classes would be: importing those takes seconds. The plugin checks the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.components.cluster_objects import declare_objects
from infra.components.prepared_run import PreparedRunArgs, prepare_run
from infra.components.resources import JobSetInstallation, StackGuard, child_after
from infra.gke.accounts import Grant
from infra.gke.cluster_inputs import Inputs
from infra.gke.data_networks import DataNetwork, mtu_problem
from infra.gke.kubeconfig import kubeconfig, server_of
from infra.gke.node_pools import AcceleratorPool
from infra.names import STATE_LABEL
from infra.pods.pod_group import Manifest
from infra.providers.inputs import JobSetInstallationInputs, StackGuardInputs

_SERVICE = "gcp:projects/service:Service"
_CLUSTER, _POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
_POLICY, _ACCOUNT = "gcp:compute/resourcePolicy:ResourcePolicy", "gcp:serviceaccount/account:Account"
_NETWORK, _SUBNET = "gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork"
_FIREWALL = "gcp:compute/firewall:Firewall"
_SAID_BY_GOOGLE = ("controlPlaneEndpointsConfig", "endpoint", "masterAuth")


@dataclass(frozen=True)
class AccountArgs:
    """An account that the stack makes, and its roles."""

    word: str
    inputs: Inputs
    grants: Sequence[Grant]


@dataclass(frozen=True)
class TrainingArgs:
    """What runs in the cluster. pods: the account that pods become, None where the stack names another; `becoming` is
    the role by which they do. job_set: None where pods need none. manifests: in the order in which they are made."""

    prepared: PreparedRunArgs
    pods: AccountArgs | None
    becoming: Grant
    job_set: JobSetInstallationInputs | None
    manifests: Sequence[Manifest]


@dataclass(frozen=True)
class GkeArgs:
    """kind: of the component in the state. training: None where nothing is to run there yet. Labels of the state
    follow."""

    kind: str
    guard: StackGuardInputs
    service: Inputs
    nodes: AccountArgs
    cluster: Inputs
    system_pool: Inputs
    networks: Sequence[DataNetwork]
    pools: Sequence[AcceleratorPool]
    node_objects: Sequence[Manifest]
    training: TrainingArgs | None


class GkeCluster(pulumi.ComponentResource):
    """Nothing is bought that another run's name or too little text stops. Does not wait for pods to be scheduled."""

    def __init__(self, name: str, args: GkeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"slipway:gke:{args.kind}", name, None, opts)
        guard, training = StackGuard("guard", args.guard, child_after(self)), args.training
        self._state = {STATE_LABEL: guard.identity}
        first = [guard, *(prepare_run(training.prepared, self, guard, guard.identity) if training else [])]
        nodes = self._account(args.nodes, first)
        service = pulumi.CustomResource(_SERVICE, "gke", args.service, child_after(self, *first))
        existing = [_ExistingNetwork(each, self) for each in args.networks if each.network_inputs is None]
        networks = [made for each in args.networks for made in self._data_network(each, [*first, service])]
        cluster = self._cluster(args.cluster, [*first, *nodes, service])
        system = self._pool("system", args.system_pool, cluster, [])
        job_set = self._job_set(training.job_set, cluster, system) if training and training.job_set else None
        reached = self._reached(cluster) if training else None
        ready = [system, *([job_set] if job_set else [])]  # no accelerator is bought that JobSet would let stand idle
        objects: list[pulumi.Resource] = []
        if reached:
            told = [*ready, *networks]
            objects = declare_objects(args.node_objects, self, told, reached, guard.identity, in_order=False)
        before = [*ready, *networks, *objects]
        pools = [self._slice_pool(pool, cluster, before, existing) for pool in args.pools]
        if training and reached:
            version = job_set.installed if job_set else None
            self._train(training, reached, guard, [cluster, *first, *ready, *pools], version)
        self.register_outputs({"cluster": args.cluster["name"]})

    def _account(self, args: AccountArgs, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        account = _GoogleAccount(args.word, args.inputs, child_after(self, *after))
        grants = [self._grant(grant, account.member, [account]) for grant in args.grants]
        return [account, *grants]

    def _grant(
        self, grant: Grant, member: pulumi.Input[str], after: Sequence[pulumi.Resource]
    ) -> pulumi.CustomResource:
        inputs = {"member": member, **grant.inputs}
        return pulumi.CustomResource(grant.token, grant.word, inputs, child_after(self, *after))

    def _cluster(self, inputs: Inputs, after: Sequence[pulumi.Resource]) -> _GkeCluster:
        options = child_after(self, *after)
        options.delete_before_replace = True  # names are fixed
        # Both are of the pool that is gone once the cluster stands, and either would replace it.
        options.ignore_changes = ["nodeConfig", "initialNodeCount"]
        labels = {"resourceLabels": inputs["resourceLabels"] | self._state}
        return _GkeCluster("cluster", inputs | labels, options)

    def _pool(
        self, word: str, inputs: Inputs, cluster: _GkeCluster, after: Sequence[pulumi.Resource]
    ) -> pulumi.CustomResource:
        options = child_after(self, cluster, *after)
        options.delete_before_replace = True  # quota holds one of them
        if inputs.get("placementPolicy", {}).get("type") == "":
            options.ignore_changes = ["placementPolicy.type"]
        nodes: Inputs = inputs["nodeConfig"]
        labelled = {"nodeConfig": nodes | {"resourceLabels": nodes["resourceLabels"] | self._state}}
        return pulumi.CustomResource(_POOL, word, inputs | labelled | {"cluster": cluster.name}, options)

    def _reached(self, cluster: _GkeCluster) -> pulumi.ProviderResource:
        options = child_after(self, cluster)
        return pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": cluster.kubeconfig}, options)

    def _job_set(
        self, inputs: JobSetInstallationInputs, cluster: _GkeCluster, system: pulumi.CustomResource
    ) -> JobSetInstallation:
        """Its controller runs on the system pool: it stands no accelerator's taint."""
        text = cluster.kubeconfig
        following = {"cluster": text.apply(server_of), "kubeconfig": text, "identity": self._state[STATE_LABEL]}
        return JobSetInstallation("jobset", inputs, child_after(self, cluster, system), following)

    def _data_network(self, network: DataNetwork, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """What is made of a network; nothing where it is there."""
        if network.network_inputs is None:
            return []
        word, options = network.word, child_after(self, *after)
        made = pulumi.CustomResource(_NETWORK, word, network.network_inputs, options)
        within = [(_SUBNET, network.subnet_inputs or {}), (_FIREWALL, network.firewall_inputs or {})]
        return [
            made,
            *(pulumi.CustomResource(token, word, inputs | {"network": made.id}, options) for token, inputs in within),
        ]

    def _slice_pool(
        self,
        pool: AcceleratorPool,
        cluster: _GkeCluster,
        after: Sequence[pulumi.Resource],
        existing: Sequence[_ExistingNetwork],
    ) -> pulumi.CustomResource:
        inputs: Inputs = pool.inputs
        if existing:
            fit = pulumi.Output.all(*(each.fits for each in existing))
            inputs = inputs | {"networkConfig": fit.apply(lambda _: pool.inputs["networkConfig"])}
        if pool.policy is None:
            return self._pool(pool.word, inputs, cluster, after)
        policy = _Policy(pool.policy_word, pool.policy, child_after(self, cluster))
        placed = {"placementPolicy": pool.inputs["placementPolicy"] | {"policyName": policy.name}}
        return self._pool(pool.word, inputs | placed, cluster, after)

    def _train(
        self,
        training: TrainingArgs,
        reached: pulumi.ProviderResource,
        guard: StackGuard,
        after: Sequence[pulumi.Resource],
        job_sets: pulumi.Output[str] | None,
    ) -> None:
        pods = self._account(training.pods, [guard]) if training.pods else []
        # Google knows the cluster's accounts once there is a cluster.
        becoming = self._grant(training.becoming, training.becoming.inputs["member"], [*after, *pods])
        declare_objects(training.manifests, self, [*after, *pods, becoming], reached, guard.identity, job_sets)


class _GkeCluster(pulumi.CustomResource):
    """With what Google says of it."""

    name: pulumi.Output[str]

    def __init__(self, word: str, inputs: Inputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(_CLUSTER, word, dict.fromkeys(_SAID_BY_GOOGLE) | inputs, opts)

    @property
    def kubeconfig(self) -> pulumi.Output[str]:
        """Of the cluster's login that Google's plugin keeps secret nothing is in it."""
        said = pulumi.Output.all(self.name, *(getattr(self, key) for key in _SAID_BY_GOOGLE))
        return pulumi.Output.unsecret(said.apply(_kubeconfig))


class _GoogleAccount(pulumi.CustomResource):
    member: pulumi.Output[str]

    def __init__(self, word: str, inputs: Inputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(_ACCOUNT, word, {"member": None, **inputs}, opts)


class _ExistingNetwork(pulumi.CustomResource):
    """Read, and never made or changed. fits: known once its packets are known to be of the right size."""

    mtu: pulumi.Output[int]

    def __init__(self, network: DataNetwork, parent: pulumi.Resource) -> None:
        options = pulumi.ResourceOptions(parent=parent, id=network.network_path)
        super().__init__(_NETWORK, network.word, {"mtu": None}, options)
        self.fits = self.mtu.apply(lambda mtu: _fits(network, mtu))


def _fits(network: DataNetwork, mtu: object) -> bool:
    if problem := mtu_problem(network, mtu):
        raise pulumi.RunError(problem)
    return True


class _Policy(pulumi.CustomResource):
    name: pulumi.Output[str]

    def __init__(self, word: str, inputs: Inputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(_POLICY, word, inputs, opts)


def _kubeconfig(said: Sequence[Any]) -> str:
    name, *values = said
    found: Mapping[str, Any] = dict(zip(_SAID_BY_GOOGLE, values, strict=True))
    return json.dumps(kubeconfig(name, found), sort_keys=True)
