"""What Google and Kubernetes are told of a stack of target gke-tpu, by rule."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from infra.gke.accounts import becoming, node_grants, pod_grants
from infra.gke.cluster_inputs import cluster_inputs, system_pool_inputs
from infra.gke.kubeconfig import kubeconfig
from infra.gke.node_pools import AcceleratorPool
from infra.gke.settings import POOL_LABEL
from infra.hardware import Accelerator, rows
from infra.paths import ROOT
from infra.pods import job_set_release
from infra.preview.stack_plan import decide
from infra.rules.guardrails import Declared, problems
from infra.targets.gke_tpu.declare import tpu_cluster_args as cluster_args
from infra.targets.gke_tpu.settings import GkeTpuSettings
from infra.targets.gke_tpu.tpu_pools import tpu_pools
from tests.unit.test_gke_tpu_settings import FLEX, RESERVED, made

POOL, POLICY = "gcp:container/nodePool:NodePool", "gcp:compute/resourcePolicy:ResourcePolicy"


def only(settings: GkeTpuSettings) -> AcceleratorPool:
    (pool,) = tpu_pools(settings)
    return pool


def job_set(settings: GkeTpuSettings) -> dict[str, Any]:
    training = cluster_args(decide(settings)).training
    assert training
    return training.manifests[-1]


def pod(settings: GkeTpuSettings) -> dict[str, Any]:
    (job,) = job_set(settings)["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]["spec"]


# --- the cluster ---


def test_the_cluster_is_private_ends_when_it_is_told_to_and_knows_its_pods_identity() -> None:
    cluster = cluster_inputs(made())
    assert cluster["location"] == "us-east5", "its control plane survives the loss of a zone"
    assert cluster["deletionProtection"] is False and cluster["removeDefaultNodePool"] is True
    assert cluster["networkingMode"] == "VPC_NATIVE"
    assert cluster["privateClusterConfig"]["enablePrivateNodes"] is True
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "my-project.svc.id.goog"}
    assert cluster["addonsConfig"]["gcsFuseCsiDriverConfig"] == {"enabled": True}
    assert cluster["monitoringConfig"]["managedPrometheus"] == {"enabled": True}
    assert cluster["releaseChannel"] == {"channel": "REGULAR"}


def test_the_control_plane_has_a_name_and_no_address() -> None:
    endpoints = cluster_inputs(made())["controlPlaneEndpointsConfig"]
    assert endpoints == {
        "dnsEndpointConfig": {"allowExternalTraffic": True},
        "ipEndpointsConfig": {"enabled": False},
    }


def test_the_network_is_the_foundations_unless_the_stack_names_another() -> None:
    of_foundation = cluster_inputs(made())
    assert of_foundation["network"] == "projects/my-project/global/networks/slipway-us-east5"
    assert of_foundation["subnetwork"] == "projects/my-project/regions/us-east5/subnetworks/slipway-us-east5"
    other = cluster_inputs(made(network="theirs", subnet="projects/p/regions/us-east5/subnetworks/s"))
    assert (other["network"], other["subnetwork"]) == ("theirs", "projects/p/regions/us-east5/subnetworks/s")


def test_the_version_is_at_least_what_the_accelerator_needs() -> None:
    assert "minMasterVersion" not in cluster_inputs(made())
    assert cluster_inputs(made("gke-tpu7x-8"))["minMasterVersion"] == "1.34.0-gke.2201000"
    assert cluster_inputs(made("gke-tpu7x-8", cluster_version="1.35"))["minMasterVersion"] == "1.35"


@pytest.mark.parametrize("tier", [{"tier": "spot"}, FLEX, RESERVED, {}])
def test_the_clusters_own_pods_get_cpu_nodes_that_are_never_spot(tier: dict[str, Any]) -> None:
    system = system_pool_inputs(made(system_machine_type="n2-standard-8", **tier))
    nodes = system["nodeConfig"]
    assert (nodes["machineType"], system["nodeCount"]) == ("n2-standard-8", 1)
    assert not {"spot", "flexStart", "reservationAffinity", "taints"} & nodes.keys()


def test_jobset_comes_into_a_new_cluster_unless_pods_need_none() -> None:
    training = cluster_args(decide(made(jobset_image="mirror.example.com/jobset:v0.10.1"))).training
    assert training and training.job_set
    assert (training.job_set.source, training.job_set.image) == (
        job_set_release.URL,
        "mirror.example.com/jobset:v0.10.1",
    )
    assert "spec.failurePolicy.rules.onJobFailureMessagePatterns" in training.job_set.fields
    without = cluster_args(decide(made(job_kind="job"))).training
    assert without and without.job_set is None


# --- pools of TPUs ---


@pytest.mark.parametrize("stack", ["gke-v5e-16", "gke-v6e-32"])
def test_several_hosts_lie_beside_each_other(stack: str) -> None:
    settings = made(stack)
    pool = only(settings)
    assert pool.inputs["placementPolicy"] == {"type": "COMPACT", "tpuTopology": settings.row.topology_text}
    assert (pool.inputs["nodeCount"], pool.policy) == (settings.row.hosts, None)


@pytest.mark.parametrize(
    ("stack", "changes"),
    [("gke-v6e-32", {"accelerator": "v6e-8"}), ("gke-v6e-32", {"accelerator": "v6e-4"}), ("gke-tpu7x-8", {})],
)
def test_a_slice_of_a_single_host_has_no_placement(stack: str, changes: dict[str, Any]) -> None:
    pool = only(made(stack, **changes))
    assert "placementPolicy" not in pool.inputs and pool.policy is None
    assert pool.inputs["nodeCount"] == 1


def test_several_hosts_of_ironwood_are_placed_by_a_workload_policy() -> None:
    pool = only(made("gke-tpu7x-16"))
    assert pool.inputs["placementPolicy"] == {"type": "", "tpuTopology": "2x2x2"}, "the component adds its name"
    assert pool.policy == {
        "name": "slipway-gke-tpu7x-16-tpu7x-2x2x2-0",
        "project": "my-project",
        "region": "us-central1",
        "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"},
    }
    assert pool.inputs["nodeConfig"]["diskType"] == "hyperdisk-balanced"


def test_another_topology_is_another_pool_and_another_policy() -> None:
    """Google's plugin would plan an update, and send nothing."""
    small, large = only(made("gke-tpu7x-16")), only(made("gke-tpu7x-64", name="gke-tpu7x-16"))
    assert small.word == large.word
    assert small.inputs["name"] != large.inputs["name"]
    assert small.policy_word != large.policy_word
    assert small.policy and large.policy and small.policy["name"] != large.policy["name"]


def test_each_slice_has_a_pool_of_its_own() -> None:
    pools = tpu_pools(made("gke-v6e-16x4"))
    assert [pool.inputs["name"] for pool in pools] == [f"v6e-4x4-{index}" for index in range(4)]
    assert len({pool.word for pool in pools}) == 4
    policies = [pool.policy for pool in tpu_pools(made("gke-tpu7x-16", name="gke-tpu7x-16x2", slices=2))]
    assert len({policy["name"] for policy in policies if policy}) == 2


def test_each_tier_is_what_its_nodes_say() -> None:
    nodes = only(made()).inputs["nodeConfig"]
    assert not {"spot", "flexStart", "reservationAffinity"} & nodes.keys()
    spot = only(made("gke-v6e-32.spot")).inputs["nodeConfig"]
    assert spot["spot"] is True
    assert spot["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    shared = "projects/shared/zones/us-east5-b/reservations/ours"
    for given, value in (("ours", "ours"), (shared, "projects/shared/reservations/ours")):
        affinity = only(made(tier="reserved", reservation=given)).inputs["nodeConfig"]["reservationAffinity"]
        assert affinity == {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [value],
        }


def test_nodes_of_flex_start_come_when_pods_wait_and_go_after_their_time() -> None:
    pool = only(made("gke-tpu7x-64.flex"))
    assert "nodeCount" not in pool.inputs
    assert pool.inputs["initialNodeCount"] == 0
    assert pool.inputs["autoscaling"] == {"minNodeCount": 0, "maxNodeCount": 8, "locationPolicy": "ANY"}
    assert pool.inputs["management"]["autoRepair"] is False
    nodes = pool.inputs["nodeConfig"]
    assert (nodes["flexStart"], nodes["maxRunDuration"]) == (True, "86400s")
    assert nodes["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "queuedProvisioning" not in pool.inputs


def test_nodes_that_are_queued_for_are_chosen_by_pods_of_the_queue() -> None:
    settings = made("gke-tpu7x-64.flex", queued_provisioning=True, queue="training")
    pool = only(settings)
    assert pool.inputs["queuedProvisioning"] == {"enabled": True}
    assert pool.inputs["nodeConfig"]["labels"] == {"cloud.google.com/gke-queued": "true"}, "GKE adds its taint alone"
    pods = pod(settings)
    assert pods["nodeSelector"]["cloud.google.com/gke-queued"] == "true"
    assert {"key": "cloud.google.com/gke-queued", "operator": "Exists"} in pods["tolerations"]
    assert job_set(settings)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "training"


@pytest.mark.parametrize("row", [row for row in rows("gke") if row.platform == "tpu"], ids=lambda row: row.name)
def test_no_size_in_any_tier_breaks_a_rule(row: Accelerator) -> None:
    zone = (row.zones_documented or row.zones)[0]
    for tier in ({}, FLEX, RESERVED):
        settings = made("gke-v6e-32", accelerator=row.name, zones=[zone], max_usd_per_hour=None, **tier)
        pool = only(settings)
        assert problems(Declared(POOL, "slice-0", pool.inputs), ()) == []
        if pool.policy:
            assert problems(Declared(POLICY, "placement", pool.policy), ()) == []
            assert len(pool.policy["name"]) <= 63
        assert len(pool.inputs["name"]) <= 40


# --- who nodes and pods are ---


def test_nodes_write_logs_and_metrics_and_pull_images_and_no_more() -> None:
    roles = {(grant.word, grant.inputs["role"]) for grant in node_grants(made())}
    assert roles == {
        ("logs-for-nodes", "roles/logging.logWriter"),
        ("metrics-for-nodes", "roles/monitoring.metricWriter"),
        ("images-for-nodes", "roles/artifactregistry.reader"),
        ("mirror-for-nodes", "roles/artifactregistry.reader"),
    }


def test_pods_get_at_the_buckets_of_their_run_and_at_secrets_that_it_names() -> None:
    grants = pod_grants(made(host_secrets=["wandb"], data="stdlib"))
    assert {(grant.inputs.get("bucket") or grant.inputs["secretId"], grant.inputs["role"]) for grant in grants} == {
        ("slipway-artifacts-us-east5-my-project", "roles/storage.objectViewer"),
        ("slipway-data-us-east5-my-project", "roles/storage.objectViewer"),
        ("slipway-data-us-east5-my-project", "roles/storage.legacyBucketReader"),
        ("slipway-checkpoints-us-east5-my-project", "roles/storage.objectUser"),
        ("slipway-checkpoints-us-east5-my-project", "roles/storage.legacyBucketReader"),
        ("slipway-us-east5-wandb", "roles/secretmanager.secretAccessor"),
    }
    elsewhere = pod_grants(made(runs="gs://ours/runs"))
    assert {grant.inputs["bucket"] for grant in elsewhere} == {"ours", "slipway-artifacts-us-east5-my-project"}


def test_pods_are_the_stacks_own_account_by_workload_identity() -> None:
    settings = made(namespace="team")
    email = "slipway-gke-v6e-32-train@my-project.iam.gserviceaccount.com"
    grant = becoming(settings)
    assert grant.inputs == {
        "serviceAccountId": f"projects/my-project/serviceAccounts/{email}",
        "role": "roles/iam.workloadIdentityUser",
        "member": "serviceAccount:my-project.svc.id.goog[team/slipway]",
    }
    training = cluster_args(decide(settings)).training
    assert training
    account = training.manifests[0]
    assert account["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": email}
    assert (account["metadata"]["namespace"], account["metadata"]["name"]) == ("team", "slipway")


def test_an_account_that_the_stack_names_gets_no_role_but_to_be_becomes() -> None:
    named = made(service_account="theirs@my-project.iam.gserviceaccount.com")
    training = cluster_args(decide(named)).training
    assert training and training.pods is None and pod_grants(named) == []
    assert training.becoming.inputs["serviceAccountId"].endswith("/theirs@my-project.iam.gserviceaccount.com")


# --- what Kubernetes is told ---


@pytest.mark.parametrize("stack", ["gke-v6e-16x4", "gke-tpu7x-8", "gke-tpu7x-64.flex"])
def test_pods_ask_for_what_the_nodes_of_their_pool_have(stack: str) -> None:
    settings = made(stack)
    row, spec = settings.row, pod(settings)
    (container,) = spec["containers"]
    assert container["resources"]["limits"] == {"google.com/tpu": str(row.chips_per_host)}
    assert spec["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": row.gke_accelerator,
        "cloud.google.com/gke-tpu-topology": row.topology_text,
    }
    assert spec["tolerations"] == [{"key": "google.com/tpu", "operator": "Exists"}]
    whole = job_set(settings)
    assert whole["metadata"]["annotations"] == {"alpha.jobset.sigs.k8s.io/exclusive-topology": POOL_LABEL}
    (job,) = whole["spec"]["replicatedJobs"]
    assert (job["replicas"], job["template"]["spec"]["parallelism"]) == (settings.slices, row.hosts)


def test_without_jobset_each_slices_job_names_its_pool() -> None:
    settings = made("gke-v6e-16x4", job_kind="job")
    training = cluster_args(decide(settings)).training
    assert training
    jobs = [each for each in training.manifests if each["kind"] == "Job"]
    selectors = [job["spec"]["template"]["spec"]["nodeSelector"] for job in jobs]
    assert [selector[POOL_LABEL] for selector in selectors] == [f"v6e-4x4-{index}" for index in range(4)]


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("python:3.12", "us-east5-docker.pkg.dev/my-project/slipway-mirror/library/python:3.12"),
        ("ada/training:1", "us-east5-docker.pkg.dev/my-project/slipway-mirror/ada/training:1"),
        ("ghcr.io/ada/training:1", "ghcr.io/ada/training:1"),
        ("localhost:5000/training", "localhost:5000/training"),
    ],
)
def test_nodes_without_internet_pull_by_the_foundations_mirror(image: str, asked: str) -> None:
    (container,) = pod(made(image=image))["containers"]
    assert container["image"] == asked


def test_secrets_of_the_foundation_are_read_by_name() -> None:
    (container,) = pod(made(host_secrets=["wandb"]))["containers"]
    said = {one["name"]: one.get("value") for one in container["env"]}
    version = "projects/my-project/secrets/slipway-us-east5-wandb/versions/latest"
    assert said["SLIPWAY_SECRETS"] == f"WANDB_API_KEY {version} optional"


def test_a_cluster_without_a_workload_is_cluster_and_pools_alone() -> None:
    args = cluster_args(decide(made(workload="none")))
    assert args.training is None
    assert (len(args.pools), args.cluster) == (1, cluster_inputs(made()))


# --- how it is reached ---

SAID = {
    "endpoint": "192.0.2.1",
    "masterAuth": {"clusterCaCertificate": "Q0E="},
    "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": "gke-1a2b-12.us-east5.gke.goog"}},
}


def test_by_googles_name_for_it_no_certificate_of_the_clusters_own_is_needed() -> None:
    config = kubeconfig("slipway-gke-v6e-32", SAID)
    assert config["clusters"][0]["cluster"] == {"server": "https://gke-1a2b-12.us-east5.gke.goog"}
    exec_ = config["users"][0]["user"]["exec"]
    assert (exec_["command"], exec_["args"]) == ("slipway", ["token"])
    assert yaml.safe_load(json.dumps(config))["current-context"] == "slipway-gke-v6e-32"


@pytest.mark.parametrize("endpoints", [{}, {"dnsEndpointConfig": {"endpoint": "127.0.0.1:6443"}}])
def test_by_an_address_its_own_certificate_is(endpoints: dict[str, Any]) -> None:
    config = kubeconfig("c", SAID | {"controlPlaneEndpointsConfig": endpoints})
    address = "127.0.0.1:6443" if endpoints else "192.0.2.1"
    cluster = {"server": f"https://{address}", "certificate-authority-data": "Q0E="}
    assert config["clusters"][0]["cluster"] == cluster


def test_no_path_of_one_machine_is_in_what_the_state_keeps() -> None:
    assert str(ROOT) not in json.dumps(kubeconfig("c", SAID))
