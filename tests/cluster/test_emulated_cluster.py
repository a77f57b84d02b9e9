"""The emulated cluster: the real scheduler and controllers of Kubernetes and JobSet, on nodes as GKE makes them."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import signal
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psutil
import pytest
from kubernetes.client import ApiException

from infra.emulators.cluster.nodes import POOL
from infra.emulators.cluster.processes import processes_of
from infra.standins.gcp import gke
from infra.standins.gcp.store import StandInStore
from tests.cluster.emulator import Emulator, emulate
from tests.cluster.jobsets import TOLERATED, Namespace, jobset, queue
from tests.engine.project import until
from tests.engine.provider_client import Provider, provider

_NUMBERS = itertools.count()


@pytest.fixture
def namespace(cluster: Emulator) -> Iterator[Namespace]:
    """Of one test; what it has declared is gone when the next one begins, which has the same nodes."""
    name = f"test-{next(_NUMBERS)}"
    cluster.kubectl("create", "namespace", name)
    made = Namespace(cluster.kubeconfig, name)
    yield made
    made.clear()


def test_its_lines_say_what_it_has_and_how_to_look_at_it(cluster: Emulator) -> None:
    assert cluster.said["nodes"] == "1 in default-pool, 4 in v5p-32-0, 4 in v5p-32-1, 2 in a3-mega-2-0"
    listed = [line.split() for line in cluster.run(cluster.said["there"].split()).splitlines()]
    head, *rows = [(row[0], row[1], row[-1]) for row in listed]
    assert head == ("NAME", "STATUS", "GKE-NODEPOOL")
    assert ("gke-slipway-default-pool-0", "Ready", "default-pool") in rows
    assert ("gke-slipway-v5p-32-0-0", "Ready", "v5p-32-0") in rows


def test_it_listens_on_loopback_alone(cluster: Emulator) -> None:
    parts = processes_of(cluster.state)
    assert {each.name() for each in parts} >= {"etcd", "kube-apiserver", "kube-scheduler", "jobset", "kueue", "kwok"}
    listening = [each.laddr for part in parts for each in part.net_connections() if each.status == psutil.CONN_LISTEN]
    assert len(listening) >= len(parts)
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_each_slice_of_a_jobset_has_a_pool_of_its_own(namespace: Namespace) -> None:
    namespace.create(jobset("train", slices=2, hosts=4))
    until(lambda: namespace.running() == 8, "all pods run")
    pools = namespace.pools_of_jobs()
    assert sorted(pools) == ["train-slice-0", "train-slice-1"]
    assert sorted(pools.values(), key=sorted) == [{"v5p-32-0"}, {"v5p-32-1"}]


@pytest.mark.parametrize(
    ("hosts", "tolerations", "says"),
    [
        (5, TOLERATED, "Insufficient google.com/tpu"),
        (4, (), "had untolerated taint {google.com/tpu: present}"),
    ],
    ids=["pool too small", "taint not tolerated"],
)
def test_what_does_not_fit_waits_with_the_schedulers_reason(
    namespace: Namespace, hosts: int, tolerations: Sequence[dict[str, str]], says: str
) -> None:
    namespace.create(jobset("train", slices=1, hosts=hosts, tolerations=tuple(tolerations)))
    until(namespace.reasons, "a reason")
    assert says in namespace.reasons()[0]


def test_a_field_that_nobody_knows_is_refused_by_name(namespace: Namespace) -> None:
    declared = jobset("train", slices=1, hosts=4)
    declared["spec"]["replicatedJob"] = []
    with pytest.raises(ApiException) as refused:
        namespace.create(declared)
    assert refused.value.status == 400
    assert 'unknown field "spec.replicatedJob"' in json.loads(str(refused.value.body))["message"]


def test_the_webhook_of_jobset_refuses_a_name_that_becomes_too_long(namespace: Namespace) -> None:
    with pytest.raises(ApiException) as refused:
        namespace.create(jobset("t" * 60, slices=1, hosts=4))
    assert 'admission webhook "vjobset.kb.io" denied the request' in json.loads(str(refused.value.body))["message"]


def test_kueue_keeps_waiting_what_its_queue_has_no_room_for(cluster: Emulator, namespace: Namespace) -> None:
    cluster.apply(queue("v6e", namespace.name, chips=16))
    for name in ("first", "second"):
        declared = jobset(name, slices=1, hosts=4)
        declared["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "v6e"}
        namespace.create(declared)
    until(lambda: namespace.running() == 4, "the pods of one run")
    until(namespace.waits_in_queue, "the other waits")
    (reason,) = namespace.waits_in_queue()
    assert "insufficient unused quota for google.com/tpu in flavor v6e" in reason
    assert len(namespace.pods()) == 4


# --- clusters and pools of Google's stand-in, which are this one and its nodes ---

PROJECT, REGION, ZONE = "real-project", "us-west4", "us-west4-a"
SLICE: dict[str, Any] = {
    "name": "slice",
    "cluster": "train",
    "location": REGION,
    "nodeLocations": [ZONE],
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    "nodeConfig": {"machineType": "ct5lp-hightpu-4t"},
}


@dataclass(frozen=True)
class Google:
    """The stand-in for Google's plugin, and what it has made of a cluster."""

    plugin: Provider
    cluster: dict[str, Any]


@pytest.fixture(scope="module")
def google(cluster: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    """In a project that is ready, with a cluster, which is gone in the end."""
    directory = tmp_path_factory.mktemp("google")
    store = StandInStore(str(directory), "")
    for service in ("compute", "container"):
        store.put("gcp:projects/service:Service", f"{PROJECT}/{service}.googleapis.com", {})
    own = {"SLIPWAY_STANDIN_STATE": str(directory), "GOOGLE_PROJECT": PROJECT}
    with provider("infra.standins.gcp", **own, **cluster.of_gke) as plugin:
        plugin.create("gcp:compute/network:Network", {"name": "n"})
        inputs = {"name": "train", "location": REGION, "network": "n", "deletionProtection": False}
        identifier, made = plugin.create(gke.CLUSTER, inputs)
        yield Google(plugin, made)
        plugin.delete(gke.CLUSTER, identifier, made)
    assert nodes_of(cluster, "slice") == []


def nodes_of(cluster: Emulator, pool: str) -> list[str]:
    printed = cluster.kubectl("get", "nodes", "--selector", f"{POOL}={pool}", "--output=name")
    return [line.removeprefix("node/") for line in printed.split()]


def test_a_cluster_of_the_stand_in_lets_in_whoever_has_the_token(cluster: Emulator, google: Google) -> None:
    api = urlsplit(cluster.of_gke["SLIPWAY_GKE_ENDPOINT"]).netloc
    with contextlib.closing(http.client.HTTPConnection(api)) as connection:
        connection.request("GET", f"/v1/projects/{PROJECT}/locations/-/clusters")
        assert [each["name"] for each in json.load(connection.getresponse())["clusters"]] == ["train"]
    endpoint = google.cluster["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]
    authority = base64.b64decode(google.cluster["masterAuth"]["clusterCaCertificate"]).decode()
    token = cluster.of_gke["GOOGLE_OAUTH_ACCESS_TOKEN"]
    trusted = ssl.create_default_context(cadata=authority)
    with contextlib.closing(http.client.HTTPSConnection(endpoint, context=trusted)) as connection:
        connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert json.load(answer)["kind"] == "NodeList"


def test_a_second_cluster_is_refused_by_name(google: Google) -> None:
    inputs = {"name": "another", "location": REGION, "network": "n"}
    with pytest.raises(grpc.RpcError) as refused:
        google.plugin.create(gke.CLUSTER, inputs)
    assert f"projects/{PROJECT}/locations/{REGION}/clusters/train: delete it" in str(refused.value)


def test_a_pool_has_nodes_whose_number_follows_and_which_go_with_it(cluster: Emulator, google: Google) -> None:
    inputs = SLICE | {"placementPolicy": None, "nodeCount": 1, "nodeConfig": {"machineType": "e2-standard-4"}}
    identifier, made = google.plugin.create(gke.POOL, inputs)
    assert nodes_of(cluster, "slice") == ["gke-train-slice-0"]
    made = google.plugin.update(gke.POOL, identifier, made, inputs | {"nodeCount": 2})
    assert nodes_of(cluster, "slice") == ["gke-train-slice-0", "gke-train-slice-1"]
    google.plugin.delete(gke.POOL, identifier, made)
    assert nodes_of(cluster, "slice") == []
    assert google.plugin.read(gke.POOL, identifier, made) is None


def test_an_autoscaled_slice_has_its_nodes_once_pods_wait_for_them(
    cluster: Emulator, google: Google, namespace: Namespace
) -> None:
    bounds = {"minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"}
    identifier, made = google.plugin.create(gke.POOL, SLICE | {"initialNodeCount": 0, "autoscaling": bounds})
    assert nodes_of(cluster, "slice") == []
    declared = jobset("train", slices=1, hosts=4)
    job = declared["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["template"]["spec"]["nodeSelector"] = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}
    namespace.create(declared)
    until(lambda: namespace.running() == 4, "all pods run")
    assert namespace.pools_of_jobs() == {"train-slice-0": {"slice"}}
    read = google.plugin.read(gke.POOL, identifier, made)
    assert read and read["nodeCount"] == 4


@pytest.mark.sample(0)  # the controller of Kubernetes that misses pods of a deleted node waits for most of a minute
def test_a_deleted_node_restarts_the_jobset_which_runs_again_on_its_successor(
    cluster: Emulator, namespace: Namespace
) -> None:
    namespace.create(jobset("train", slices=1, hosts=4))
    until(lambda: namespace.running() == 4, "all pods run")
    ((pool,),) = namespace.pools_of_jobs().values()
    node = f"node/gke-slipway-{pool}-2"
    successor = cluster.kubectl("get", node, "--output=yaml")
    cluster.kubectl("delete", node)
    until(lambda: namespace.status("train").get("restarts") == 1, "the JobSet restarts")
    cluster.kubectl("create", "--filename=-", given=successor)
    until(lambda: namespace.running() == 4, "all pods run again")


@pytest.mark.sample(0)  # two starts
def test_a_state_is_kept_and_no_part_outlives_the_command_however_it_ends(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with emulate(state, "--pool", "v5e-4") as emulator:
        emulator.kubectl("create", "namespace", "kept")
        emulator.process.send_signal(signal.SIGTERM)
        assert emulator.process.wait() == 0
        assert processes_of(state) == []

    with emulate(state) as emulator:
        names = emulator.kubectl("get", "nodes,namespaces", "--output=name").split()
        assert {"namespace/kept", "node/gke-slipway-v5e-4-0-0"} <= set(names)
        parts = processes_of(state)
        emulator.process.kill()
        psutil.wait_procs(parts, timeout=600)
        assert processes_of(state) == []
