"""GKE as the stand-in for Google's plugin has it: ids, what GKE fills in, what it would not make and not delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.providers.input_types import UNKNOWN
from infra.providers.proto import provider_pb2
from infra.providers.resource import ResourceError
from infra.providers.server import to_struct, to_values
from infra.standins.gcp import gke, gke_refusals, preconditions, rules, schema
from infra.standins.gcp.making import Making
from infra.standins.gcp.server import Server
from infra.standins.gcp.store import StandInStore
from tests.google_plugin_cases import NETWORK, NOT_TAKEN, POLICY, TAKEN

P, REGION, ZONE = "real-project", "us-east5", "us-east5-b"
MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
ACCOUNT = "gcp:serviceaccount/account:Account"
EMAIL = f"nodes@{P}.iam.gserviceaccount.com"
PATH = f"projects/{P}/locations/{REGION}/clusters/c"
CLUSTER: dict[str, Any] = {
    "name": "c",
    "location": REGION,
    "network": f"projects/{P}/global/networks/n",
    "workloadIdentityConfig": {"workloadPool": f"{P}.svc.id.goog"},
    "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}},
    "deletionProtection": False,
}
V6E_32: dict[str, Any] = {
    "name": "slice",
    "cluster": "c",
    "location": REGION,
    "nodeLocations": [ZONE],
    "nodeCount": 8,
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x8"},
    "nodeConfig": {"machineType": "ct6e-standard-4t", "serviceAccount": EMAIL},
}
IRONWOOD = V6E_32 | {
    "nodeCount": 2,
    "placementPolicy": {"type": "", "policyName": "w", "tpuTopology": "2x2x2"},
    "nodeConfig": {"machineType": "tpu7x-standard-4t"},
}
NOBODY: Any = None  # the engine's side of the call, which is asked only where something is refused


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """The plugin in a project where Kubernetes may be used, with a network, an account and a cluster."""
    store = StandInStore(str(tmp_path), "")
    for service in ("compute", "container", "iam"):
        store.put("gcp:projects/service:Service", f"{P}/{service}.googleapis.com", {})
    server = Server({"GOOGLE_PROJECT": P, "GOOGLE_REGION": REGION}, str(tmp_path))
    for token, inputs in ((NETWORK, {"name": "n"}), (ACCOUNT, {"accountId": "nodes"}), (gke.CLUSTER, CLUSTER)):
        create(server, token, inputs)
    return server


def create(server: Server, token: str, inputs: dict[str, Any], preview: bool = False) -> tuple[str, dict[str, Any]]:
    urn = f"urn:pulumi:t::cloud::{token}::x"
    request = provider_pb2.CreateRequest(urn=urn, properties=to_struct(inputs), preview=preview)
    answer = server.Create(request, NOBODY)
    return answer.id, to_values(answer.properties)


def refusal(server: Server, token: str, inputs: dict[str, Any]) -> str:
    """In which words Google would refuse to make it; empty where it would not."""
    settings = {"project": P, "region": REGION, "zone": ""}
    try:
        preconditions.check(Making(token, inputs, settings, server.store))
    except ResourceError as error:
        return str(error)
    return ""


def test_a_cluster_has_what_whoever_talks_to_it_needs(server: Server) -> None:
    identifier, made = create(server, gke.CLUSTER, CLUSTER | {"name": "d"})
    assert identifier == f"projects/{P}/locations/{REGION}/clusters/d"
    assert made["selfLink"] == f"https://container.googleapis.com/v1/{identifier}"
    assert made["endpoint"] and made["masterAuth"]["clusterCaCertificate"] and made["masterVersion"]
    dns = made["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert dns["allowExternalTraffic"] is True
    assert dns["endpoint"].startswith("gke-") and dns["endpoint"].endswith(f".{REGION}.gke.goog")
    assert made["nodeLocations"] == [f"{REGION}-{letter}" for letter in "abc"]
    private = CLUSTER | {"name": "e", "privateClusterConfig": {"enablePrivateEndpoint": True}}
    _, made = create(server, gke.CLUSTER, private)
    assert made["endpoint"] == made["privateClusterConfig"]["privateEndpoint"]


def test_what_gke_fills_in_is_not_known_at_preview_and_stays_at_an_update(server: Server) -> None:
    _, planned = create(server, gke.CLUSTER, CLUSTER, preview=True)
    made = server.store.read(gke.CLUSTER, PATH)
    assert made is not None
    for values in (planned, made):
        assert values["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["allowExternalTraffic"] is True
    assert planned["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"] is planned["endpoint"]
    closed = CLUSTER | {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": False}}}
    request = provider_pb2.UpdateRequest(
        id=PATH,
        urn=f"urn:pulumi:t::cloud::{gke.CLUSTER}::x",
        olds=to_struct(made),
        news=to_struct(closed),
        preview=True,
    )
    updated = to_values(server.Update(request, NOBODY).properties)
    dns = made["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert updated["controlPlaneEndpointsConfig"]["dnsEndpointConfig"] == dns | {"allowExternalTraffic": False}
    assert updated["masterAuth"] == made["masterAuth"]


def test_labels_that_are_not_known_yet_are_none_of_the_plugins(server: Server) -> None:
    bucket = "gcp:storage/bucket:Bucket"
    _, planned = create(server, bucket, {"name": "b", "location": "eu", "labels": UNKNOWN}, preview=True)
    assert planned["labels"] is planned["effectiveLabels"] is UNKNOWN
    _, planned = create(server, bucket, {"name": "b", "location": "eu", "labels": {"a": UNKNOWN}}, preview=True)
    assert planned["effectiveLabels"] == {"a": UNKNOWN, "goog-pulumi-provisioned": "true"}


@pytest.mark.parametrize("cluster", ["c", PATH])
def test_a_pool_is_in_its_cluster_however_that_is_named(server: Server, cluster: str) -> None:
    identifier, made = create(server, gke.POOL, V6E_32 | {"cluster": cluster})
    assert identifier == f"{PATH}/nodePools/slice"
    (group,) = made["instanceGroupUrls"]
    assert f"/zones/{ZONE}/instanceGroupManagers/gke-c-slice-" in group
    assert made["managedInstanceGroupUrls"] == [group.replace("instanceGroupManagers", "instanceGroups")]
    assert (made["nodeCount"], made["initialNodeCount"], made["nodeLocations"]) == (8, 8, [ZONE])


def test_other_things_of_a_cluster_have_the_ids_of_the_documentation(server: Server) -> None:
    workload = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}
    identifier, _ = create(server, POLICY, {"name": "w", "workloadPolicy": workload})
    assert identifier == f"projects/{P}/regions/{REGION}/resourcePolicies/w"
    account = f"projects/{P}/serviceAccounts/{EMAIL}"
    role, member = "roles/iam.workloadIdentityUser", f"serviceAccount:{P}.svc.id.goog[default/train]"
    identifier, _ = create(server, MEMBER, {"serviceAccountId": account, "role": role, "member": member})
    assert identifier == f"{account}/{role}/{member}"


@pytest.mark.parametrize(
    ("token", "inputs", "said"),
    [
        (gke.CLUSTER, CLUSTER | {"network": "m"}, 'Project "real-project" has no network named "m".'),
        (gke.CLUSTER, {"name": "c", "location": REGION}, 'has no network named "default".'),
        (gke.POOL, V6E_32 | {"cluster": "d"}, f"Error 404: Not found: {PATH[:-1]}d., notFound"),
        (gke.POOL, V6E_32 | {"location": ZONE}, f"Not found: projects/{P}/locations/{ZONE}/clusters/c., notFound"),
        (
            *(gke.POOL, V6E_32 | {"nodeConfig": {"serviceAccount": f"no-one@{P}.iam.gserviceaccount.com"}}),
            f'Service account "no-one@{P}.iam.gserviceaccount.com" does not exist.',
        ),
        (
            gke.POOL,
            V6E_32 | {"nodeCount": 4},
            "size '4' for a Managed Instance Group in the gang mode of size '8'",
        ),
        (
            *(gke.POOL, V6E_32 | {"nodeCount": None, "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 8}}),
            "Maximum node count 0 is not a valid size of TPU pod slice with topology 4x8",
        ),
        (
            *(gke.POOL, V6E_32 | {"nodeCount": None, "autoscaling": {"minNodeCount": 1, "maxNodeCount": 8}}),
            "Minimum node count 1 is not a valid size of TPU pod slice with topology 4x8",
        ),
        (
            *(gke.POOL, IRONWOOD | {"placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x2"}}),
            "Creation of a managed instance group with tpu7x-standard-4t machine type with placement policy",
        ),
        (
            *(gke.POOL, IRONWOOD | {"nodeCount": 1, "placementPolicy": {"type": "", "tpuTopology": "2x2x1"}}),
            "TPU topology can't be specified with single-host TPU slice pool",
        ),
        (
            *(MEMBER, {"serviceAccountId": "a", "role": "r", "member": "serviceAccount:other.svc.id.goog[ns/ksa]"}),
            "Error 400: Identity Pool does not exist (other.svc.id.goog).",
        ),
    ],
)
def test_refused_in_googles_words(server: Server, token: str, inputs: dict[str, Any], said: str) -> None:
    assert said in refusal(server, token, inputs)


@pytest.mark.parametrize(
    "inputs",
    [
        V6E_32,
        V6E_32 | {"nodeCount": None, "autoscaling": {"minNodeCount": 0, "maxNodeCount": 8}, "initialNodeCount": 0},
        V6E_32 | {"placementPolicy": None, "nodeCount": 1, "nodeConfig": {"machineType": "tpu7x-standard-4t"}},
        V6E_32 | {"placementPolicy": None, "nodeCount": 3, "nodeConfig": {"machineType": "e2-standard-8"}},
        IRONWOOD,
    ],
)
def test_pools_that_gke_makes(server: Server, inputs: dict[str, Any]) -> None:
    assert refusal(server, gke.POOL, inputs) == ""


def test_a_cluster_is_protected_until_it_says_otherwise_and_takes_its_pools_with_it(server: Server) -> None:
    create(server, gke.POOL, V6E_32)
    for said in ({}, {"deletionProtection": True}):
        with pytest.raises(ResourceError, match=r"^Cannot destroy cluster because deletion_protection is set to true"):
            gke_refusals.check_delete(gke.CLUSTER, said)
    made = server.store.marked(server.store.read(gke.CLUSTER, PATH) or {})
    urn = f"urn:pulumi:t::cloud::{gke.CLUSTER}::x"
    server.Delete(provider_pb2.DeleteRequest(id=PATH, urn=urn, properties=to_struct(made)), NOBODY)
    assert server.store.every(gke.CLUSTER) == server.store.every(gke.POOL) == []


@pytest.mark.parametrize(("token", "inputs", "key"), NOT_TAKEN)
def test_values_that_the_plugin_does_not_take(token: str, inputs: dict[str, Any], key: str) -> None:
    resource = schema.resource_type(token)
    assert resource is not None
    assert [problem.path.rpartition(".")[2] for problem in rules.problems(resource, inputs, P)] == [key]


@pytest.mark.parametrize(("token", "inputs"), TAKEN)
def test_values_that_only_slipway_refuses(token: str, inputs: dict[str, Any]) -> None:
    """A run of plugin 9.35 took them: a stand-in that refused them would hide that they are missing there."""
    resource = schema.resource_type(token)
    assert resource is not None
    assert rules.problems(resource, inputs, P) == []
