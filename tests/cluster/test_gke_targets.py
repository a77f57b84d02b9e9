"""Targets gke-tpu and gke-gpu from nothing to nothing: the stand-in for Google's plugin over a real API server.

Nodes come and go with their pools; no container is started on them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from infra import names
from infra.artifacts.layout import wheelhouse_key
from infra.emulated import STORAGE
from infra.emulators.cluster.nodes import POOL
from infra.emulators.object_store import ObjectStore
from infra.gke.settings import GkeSettings
from infra.host_software.derive import wheelhouse
from infra.paths import ROOT
from infra.pods import job_set_release
from infra.stack_file.settings import any_from_file, stack_names
from infra.standins.gcp.store import STATE_VARIABLE, StandInStore
from tests.cluster import without_jobset
from tests.cluster.emulator import Emulator
from tests.engine.clone import Clone, said
from tests.engine.project import until

PROJECT = "real-project"
STACKS = [name for name in stack_names() if isinstance(any_from_file(name), GkeSettings)]
LIFE = "gke-v6e-16x4"
OF_GPUS = "gke-a3-mega-2"
TRAINING = "slipway-stack"  # a label of training pods alone
OURS = "--selector=slipway-stack"  # the cluster is everybody's: JobSets of other tests may be left in it
ACCELERATORS = ("cloud.google.com/gke-tpu-topology", "cloud.google.com/gke-accelerator")
_ENABLED = ("artifactregistry", "cloudresourcemanager", "compute", "iam", "storage")


@dataclass(frozen=True)
class Cloud:
    """A project with what foundations have made, and the cluster that its only cluster will be."""

    cluster: Emulator
    clone: Clone
    google: StandInStore
    standing: frozenset[str]  # nodes that other tests have

    def write(self, stack: str, **changes: Any) -> None:
        document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
        values = {"project": PROJECT, "owner": "ada@example.com", "fit": "unchecked"} | changes
        document["config"] |= {f"slipway:{key}": value for key, value in values.items()}
        (self.clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))

    def get(self, *what: str) -> list[dict[str, Any]]:
        return json.loads(self.cluster.kubectl("get", *what, "--all-namespaces", "--output=json"))["items"]

    def pools_of_nodes(self) -> dict[str, int]:
        """How many nodes each pool with accelerators has."""
        counts: dict[str, int] = {}
        for node in self.nodes_with_accelerators():
            if node["metadata"]["name"] in self.standing:
                continue
            pool = node["metadata"]["labels"][POOL]
            counts[pool] = counts.get(pool, 0) + 1
        return counts

    def nodes_with_accelerators(self) -> list[dict[str, Any]]:
        return [each for label in ACCELERATORS for each in self.get("nodes", f"--selector={label}")]

    def status(self, stack: str) -> dict[str, Any]:
        return self.clone.status(stack)


@pytest.fixture(scope="module")
def cloud(cluster: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    work = tmp_path_factory.mktemp("gke")
    google = StandInStore(str(work / "google"), "")
    for service in _ENABLED:
        google.put("gcp:projects/service:Service", f"{PROJECT}/{service}.googleapis.com", {})
    regions = {any_from_file(name).place for name in STACKS}
    foundations = [names.of(PROJECT, region, "slipway") for region in sorted(regions)]
    for each in foundations:
        google.put("gcp:compute/network:Network", each.network_path, {})
    buckets = tuple(bucket for each in foundations for bucket in each.buckets.values())
    with ObjectStore(work / "buckets", buckets) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.of_gke.items():
            patch.setenv(name, value)
        patch.setenv(STORAGE, store.url)
        patch.setenv(STATE_VARIABLE, str(work / "google"))
        without_jobset.published()  # by the home that built it
        patch.setenv("HOME", str(work))
        for each, stack in itertools.product(foundations, (LIFE, OF_GPUS)):
            # nothing of it is ever installed: the nodes are pretended
            _store_wheelhouse(store, each.artifacts_bucket, stack)
        standing = cluster.kubectl("get", "nodes", "--output=jsonpath={.items[*].metadata.name}").split()
        yield Cloud(cluster, Clone.make(work / "clone"), google, frozenset(standing))


def _store_wheelhouse(store: ObjectStore, bucket: str, stack: str) -> None:
    settings = any_from_file(stack)
    assert isinstance(settings, GkeSettings)
    listing = store.root / bucket / wheelhouse_key(wheelhouse(settings, settings.row.platform).id)
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.touch()


def test_a_stack_from_nothing_to_nothing(cloud: Cloud) -> None:
    """One life: made, unchanged, looked at, stopped, started, changed, of other slices, taken away."""
    clone = cloud.clone
    cloud.write(LIFE)
    assert (up := clone.pulumi("up", LIFE)).returncode == 0, said(up)
    assert cloud.pools_of_nodes() == {f"v6e-4x4-{index}": 4 for index in range(4)}
    until(lambda: cloud.cluster.pods_that_run(TRAINING) == 16, "all pods run")
    assert cloud.status(LIFE)["phase"] == "training"
    slices: dict[str, set[str]] = {}
    pools = {node["metadata"]["name"]: node["metadata"]["labels"][POOL] for node in cloud.get("nodes")}
    for pod in cloud.get("pods", f"--selector={TRAINING}"):
        job = pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]
        slices.setdefault(job, set()).add(pools[pod["spec"]["nodeName"]])
    assert sorted(map(sorted, slices.values())) == [[f"v6e-4x4-{index}"] for index in range(4)]
    again = clone.pulumi("preview", LIFE, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)

    assert (stopped := clone.run("slipway", "stop", LIFE)).returncode == 0, said(stopped)
    assert {host["reason"] for host in cloud.status(LIFE)["hosts"]} == {"is suspended"}
    assert (started := clone.run("slipway", "start", LIFE)).returncode == 0, said(started)
    until(lambda: cloud.cluster.pods_that_run(TRAINING) == 16, "all pods run again")

    (made,) = cloud.get("jobsets", OURS)
    before = {node["metadata"]["name"]: node["metadata"]["uid"] for node in cloud.get("nodes")}
    cloud.write(LIFE, steps=2000)
    assert (changed := clone.pulumi("up", LIFE)).returncode == 0, said(changed)
    (now,) = cloud.get("jobsets", OURS)
    assert now["metadata"]["uid"] != made["metadata"]["uid"]
    assert before == {node["metadata"]["name"]: node["metadata"]["uid"] for node in cloud.get("nodes")}, "nodes stay"

    assert (gone := clone.pulumi("destroy", LIFE)).returncode == 0, said(gone)
    assert (cloud.get("jobsets", OURS), cloud.pools_of_nodes()) == ([], {})
    assert cloud.get("serviceaccounts,configmaps", f"--selector={TRAINING}") == []
    assert cloud.google.every("gcp:container/cluster:Cluster") == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("stack", [name for name in STACKS if name not in (LIFE, OF_GPUS, "gke-a3-mega-32")])
def test_each_stack_ends_with_a_jobset_that_is_admitted_and_leaves_nothing(cloud: Cloud, stack: str) -> None:
    cloud.write(stack)
    assert (up := cloud.clone.pulumi("up", stack)).returncode == 0, said(up)
    settings = any_from_file(stack)
    assert isinstance(settings, GkeSettings)
    hosts = settings.row.hosts * settings.slices
    until(lambda: cloud.cluster.pods_that_run(TRAINING) == hosts, "all pods run")
    assert [host["phase"] for host in cloud.status(stack)["hosts"]] == ["training"] * hosts
    again = cloud.clone.pulumi("preview", stack, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)
    assert (gone := cloud.clone.pulumi("destroy", stack)).returncode == 0, said(gone)
    assert (cloud.get("jobsets", OURS), cloud.pools_of_nodes()) == ([], {})


@pytest.mark.sample(0)  # tests/engine/test_gke.py has its engine, test_each_stack_... a cluster of TPUs
def test_two_hosts_of_gpus_get_their_cards_and_daemons_and_leave_nothing(cloud: Cloud) -> None:
    _life_of_gpus(cloud, OF_GPUS, 2)


@pytest.mark.sample(0)  # two hosts show the same with fewer objects
def test_32_hosts_of_gpus_get_their_cards_and_daemons_and_leave_nothing(cloud: Cloud) -> None:
    _life_of_gpus(cloud, "gke-a3-mega-32", 32)


def _life_of_gpus(cloud: Cloud, stack: str, hosts: int) -> None:
    clone = cloud.clone
    cloud.write(stack)
    assert (up := clone.pulumi("up", stack)).returncode == 0, said(up)
    assert cloud.pools_of_nodes() == {"a3-mega-0": hosts}
    until(lambda: cloud.cluster.pods_that_run(TRAINING) == hosts, "all pods run")
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"][POOL] for node in cloud.get("nodes")}
    pods = cloud.get("pods", f"--selector={TRAINING}")
    assert {nodes[pod["spec"]["nodeName"]] for pod in pods} == {"a3-mega-0"}
    assert len({pod["spec"]["nodeName"] for pod in pods}) == hosts, "a host has all GPUs of its node"
    asked = json.loads(pods[0]["metadata"]["annotations"]["networking.gke.io/interfaces"])
    (networks, parameters) = (
        {each["metadata"]["name"]: each for each in cloud.get(f"{kind}.networking.gke.io")}
        for kind in ("networks", "gkenetworkparamsets")
    )
    assert [each["network"] for each in asked[1:]] == sorted(networks)
    of_google = {each.get("name"): each for each in cloud.google.every("gcp:compute/network:Network")}
    for network in networks.values():
        named = parameters[network["spec"]["parametersRef"]["name"]]["spec"]["vpc"]
        assert of_google[named]["mtu"] == 8244
    for daemon in ("nccl-tcpxo-installer", "device-injector"):
        selector = f"k8s-app={daemon}"
        until(lambda which=selector: cloud.cluster.pods_that_run(which) >= hosts, f"{daemon} runs on every node")
    again = clone.pulumi("preview", stack, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)

    assert (gone := clone.pulumi("destroy", stack)).returncode == 0, said(gone)
    assert (cloud.get("jobsets", OURS), cloud.pools_of_nodes()) == ([], {})
    assert cloud.get("networks.networking.gke.io,gkenetworkparamsets.networking.gke.io") == []
    assert cloud.get("daemonsets", f"--selector={TRAINING}") == []
    assert [
        each for each in cloud.google.every("gcp:compute/network:Network") if "-data-" in each.get("name", "")
    ] == []


@pytest.mark.sample(0)
def test_jobset_is_brought_into_a_new_cluster_before_a_tpu_is_asked_for(cloud: Cloud) -> None:
    stack, file = "gke-v5e-16", str(without_jobset.published())
    with without_jobset.taken_out(cloud.cluster):
        cloud.write(stack, jobset_manifests=__file__)
        assert (up := cloud.clone.pulumi("up", stack)).returncode != 0
        assert f"is no file of manifests; JobSet {job_set_release.VERSION}'s is at {job_set_release.URL}" in said(up)
        assert cloud.pools_of_nodes() == {}
        cloud.write(stack, jobset_manifests=file)
        assert (up := cloud.clone.pulumi("up", stack)).returncode == 0, said(up)
        assert len(without_jobset.there(cloud.cluster)) == len(without_jobset.released())
        (controller,) = cloud.get("pods", f"--selector={job_set_release.CONTROLLER_PODS}")
        bought = {each["metadata"]["name"] for each in cloud.nodes_with_accelerators()}
        assert bought and controller["spec"]["nodeName"] not in bought
        again = cloud.clone.pulumi("preview", stack, "--expect-no-changes", "--diff", "--color", "never")
        assert again.returncode == 0, said(again)
        assert (gone := cloud.clone.pulumi("destroy", stack)).returncode == 0, said(gone)
        assert without_jobset.there(cloud.cluster) == []
