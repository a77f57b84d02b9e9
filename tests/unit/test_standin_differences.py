"""What each change is to the stand-in for Google's plugin, against what the plugin was seen to plan, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.providers.proto import provider_pb2
from infra.providers.resource import ResourceError
from infra.providers.server import to_struct, to_values
from infra.standins.gcp import differences, preconditions, provider_fields, schema
from infra.standins.gcp.schema import ListOf, MapOf, ObjectOf, ResourceType, Type
from infra.standins.gcp.server import Server
from infra.standins.gcp.store import StandInStore

BUCKET, NETWORK = "gcp:storage/bucket:Bucket", "gcp:compute/network:Network"
SUBNET, FIREWALL = "gcp:compute/subnetwork:Subnetwork", "gcp:compute/firewall:Firewall"
KEY, SECRET = "gcp:kms/cryptoKey:CryptoKey", "gcp:secretmanager/secret:Secret"
REPOSITORY, NAT = "gcp:artifactregistry/repository:Repository", "gcp:compute/routerNat:RouterNat"
CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
POLICY, GRANT = "gcp:compute/resourcePolicy:ResourcePolicy", "gcp:projects/iAMMember:IAMMember"

UPDATE, REPLACE, NOTHING = "update", "replace", "nothing"

type Values = dict[str, Any]


def resource_of(token: str) -> ResourceType:
    resource = schema.resource_type(token)
    assert resource is not None
    return resource


def found(token: str, old: Values, new: Values, outputs: Values | None = None) -> dict[str, str]:
    """What is done because of which path."""
    each = differences.between(token, resource_of(token), old, new, outputs or {})
    return {one.path: REPLACE if one.replaces else UPDATE for one in each}


def nodes(**config: Any) -> Values:
    return {"nodeConfig": {"machineType": "ct6e-standard-4t", **config}}


def remote(**config: Any) -> Values:
    return {"remoteRepositoryConfig": {"description": "d", **config}}


# type, before, after, what, and where it is not the key that changed the path
ONE_VALUE: tuple[tuple[str, Values, Values, str], ...] = (
    # where the stand-in once said another thing than the plugin
    (BUCKET, {"project": "a"}, {"project": "b"}, REPLACE),
    (REPOSITORY, remote(), remote(description="e"), REPLACE),
    (REPOSITORY, remote(), remote(pythonRepository={"publicRepository": "PYPI"}), REPLACE),
    (REPOSITORY, {}, remote(), REPLACE),
    (NETWORK, {"networkProfile": "a"}, {"networkProfile": "b"}, REPLACE),
    (NETWORK, {"internalIpv6Range": "a"}, {"internalIpv6Range": "b"}, REPLACE),
    (SUBNET, {"reservedInternalRange": "a"}, {"reservedInternalRange": "b"}, REPLACE),
    (SUBNET, {"externalIpv6Prefix": "a"}, {"externalIpv6Prefix": "b"}, REPLACE),
    (SUBNET, {"internalIpv6Prefix": "a"}, {"internalIpv6Prefix": "b"}, REPLACE),
    (KEY, {"cryptoKeyBackend": "a"}, {"cryptoKeyBackend": "b"}, REPLACE),
    (SECRET, {"tags": {"a": "b"}}, {"tags": {"a": "c"}}, REPLACE),
    (FIREWALL, {"network": "a"}, {"network": "b"}, UPDATE),
    (SUBNET, {"purpose": "PRIVATE"}, {"purpose": "PEER_MIGRATION"}, UPDATE),
    # what was agreed upon, a case of each kind
    (NETWORK, {"autoCreateSubnetworks": False}, {"autoCreateSubnetworks": True}, REPLACE),
    (NETWORK, {"routingMode": "REGIONAL"}, {"routingMode": "GLOBAL"}, UPDATE),
    (BUCKET, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, UPDATE),
    (BUCKET, {"labels": {"a": "b"}}, {}, UPDATE),
    (
        SECRET,
        {"replication": {"auto": {}}},
        {"replication": {"userManaged": {"replicas": [{"location": "l"}]}}},
        REPLACE,
    ),
    (GRANT, {"role": "a"}, {"role": "b"}, REPLACE),
    (GRANT, {}, {"condition": {"title": "t", "expression": "e"}}, REPLACE),
    (FIREWALL, {"allows": [{"protocol": "tcp"}]}, {"allows": [{"protocol": "udp"}]}, UPDATE),
    # node pools: what replaces
    (POOL, {}, {"placementPolicy": {"type": "COMPACT"}}, REPLACE),
    (POOL, {"placementPolicy": {"type": "COMPACT"}}, {}, REPLACE),
    (
        POOL,
        {"placementPolicy": {"type": "", "policyName": "a"}},
        {"placementPolicy": {"type": "", "policyName": "b"}},
        REPLACE,
    ),
    (POOL, {"initialNodeCount": 0}, {"initialNodeCount": 4}, REPLACE),
    (POOL, {"queuedProvisioning": {"enabled": False}}, {"queuedProvisioning": {"enabled": True}}, REPLACE),
    (POOL, {"maxPodsPerNode": 32}, {"maxPodsPerNode": 64}, REPLACE),
    (POOL, {"name": "a"}, {"name": "b"}, REPLACE),
    (POOL, nodes(), nodes(spot=True), REPLACE),
    (POOL, nodes(), nodes(flexStart=True), REPLACE),
    (POOL, nodes(maxRunDuration="1s"), nodes(maxRunDuration="2s"), REPLACE),
    (POOL, nodes(serviceAccount="a"), nodes(serviceAccount="b"), REPLACE),
    (POOL, nodes(oauthScopes=["a"]), nodes(oauthScopes=["a", "b"]), REPLACE),
    (POOL, nodes(metadata={"a": "b"}), nodes(metadata={"a": "c"}), REPLACE),
    (
        *(POOL, nodes(reservationAffinity={"consumeReservationType": "NO_RESERVATION"})),
        *(nodes(reservationAffinity={"consumeReservationType": "ANY_RESERVATION"}), REPLACE),
    ),
    (
        *(POOL, nodes(guestAccelerators=[{"type": "t", "count": 4}])),
        *(nodes(guestAccelerators=[{"type": "t", "count": 8}]), REPLACE),
    ),
    (
        *(POOL, {"networkConfig": {"additionalNodeNetworkConfigs": [{"network": "a"}]}}),
        *({"networkConfig": {"additionalNodeNetworkConfigs": [{"network": "b"}]}}, REPLACE),
    ),
    # node pools: what is an update
    (POOL, {"nodeCount": 4}, {"nodeCount": 8}, UPDATE),
    (POOL, {"nodeLocations": ["a"]}, {"nodeLocations": ["b"]}, UPDATE),
    (POOL, {"autoscaling": {"maxNodeCount": 4}}, {"autoscaling": {"maxNodeCount": 8}}, UPDATE),
    (POOL, {"version": "1"}, {"version": "2"}, UPDATE),
    (POOL, nodes(), nodes(machineType="ct6e-standard-8t"), UPDATE),
    (POOL, nodes(labels={"a": "b"}), nodes(labels={"a": "c"}), UPDATE),
    (
        *(POOL, nodes(taints=[{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}])),
        *(nodes(taints=[{"key": "k", "value": "v", "effect": "NO_EXECUTE"}]), UPDATE),
    ),
    (POOL, nodes(diskSizeGb=100), nodes(diskSizeGb=200), UPDATE),
    (
        POOL,
        nodes(workloadMetadataConfig={"mode": "GCE_METADATA"}),
        nodes(workloadMetadataConfig={"mode": "GKE_METADATA"}),
        UPDATE,
    ),
    # the trap: an update, of which nothing is sent
    (
        POOL,
        {"placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"}},
        {"placementPolicy": {"type": "COMPACT", "tpuTopology": "4x8"}},
        UPDATE,
    ),
    (POOL, {"placementPolicy": {"type": "COMPACT"}}, {"placementPolicy": {"type": ""}}, UPDATE),
    (POLICY, {"name": "a"}, {"name": "b"}, UPDATE),
    # clusters and policies
    (CLUSTER, {"datapathProvider": "LEGACY_DATAPATH"}, {"datapathProvider": "ADVANCED_DATAPATH"}, REPLACE),
    (CLUSTER, {"releaseChannel": {"channel": "RAPID"}}, {"releaseChannel": {"channel": "STABLE"}}, UPDATE),
    (CLUSTER, {"network": "a"}, {"network": "b"}, REPLACE),
    (
        *(CLUSTER, {"ipAllocationPolicy": {"clusterSecondaryRangeName": "a"}}),
        *({"ipAllocationPolicy": {"clusterSecondaryRangeName": "b"}}, REPLACE),
    ),
    (
        POLICY,
        {"workloadPolicy": {"type": "HIGH_THROUGHPUT"}},
        {"workloadPolicy": {"type": "HIGH_AVAILABILITY"}},
        REPLACE,
    ),
    # what the service fills in is not removed, nor what is nothing
    (NETWORK, {"mtu": 8896}, {}, NOTHING),
    (NETWORK, {"routingMode": "GLOBAL"}, {}, NOTHING),
    (NETWORK, {"project": "a"}, {}, NOTHING),
    (BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": 604800}}, {}, NOTHING),
    (BUCKET, {"uniformBucketLevelAccess": True}, {}, NOTHING),
    (SUBNET, {"region": "r"}, {}, NOTHING),
    (POOL, {"name": "a"}, {}, NOTHING),
    (POOL, {"nodeCount": 4}, {}, NOTHING),
    (CLUSTER, {"privateClusterConfig": {"privateEndpoint": "192.0.2.2"}}, {"privateClusterConfig": {}}, NOTHING),
    (BUCKET, {"forceDestroy": False}, {}, NOTHING),
    (BUCKET, {}, {"forceDestroy": False}, NOTHING),
    (BUCKET, {"forceDestroy": True}, {}, UPDATE),
    (NETWORK, {"description": "d"}, {}, REPLACE),
    (NETWORK, {"mtu": 8896}, {"mtu": "8896"}, NOTHING),
)


@pytest.mark.parametrize(("token", "old", "new", "what"), ONE_VALUE)
def test_a_change_of_one_value(token: str, old: Values, new: Values, what: str) -> None:
    assert sorted(set(found(token, old, new).values())) == ([] if what == NOTHING else [what])


def test_paths_are_those_of_the_plugin() -> None:
    old = {"nodeConfig": {"spot": False, "labels": {"a": "b"}, "taints": [{"key": "k", "value": "v", "effect": "e"}]}}
    new = {
        "nodeConfig": {"spot": True, "labels": {"a": "c"}, "taints": [{"key": "k", "value": "v", "effect": "f"}] * 2}
    }
    assert found(POOL, old, new) == {
        "nodeConfig.labels.a": UPDATE,
        "nodeConfig.spot": REPLACE,
        "nodeConfig.taints[0].effect": UPDATE,
        "nodeConfig.taints[1]": UPDATE,
    }
    assert found(POOL, {}, {"nodeConfig": {"spot": True}}) == {"nodeConfig": REPLACE}
    assert found(POOL, {"nodeConfig": [{"spot": True}]}, {"nodeConfig": {"spot": True}}) == {}


def test_a_value_is_compared_with_what_the_service_filled_in_before() -> None:
    assert found(NETWORK, {}, {"mtu": 1460}, {"mtu": 1460}) == {}
    assert found(NETWORK, {}, {"mtu": 8896}, {"mtu": 1460}) == {"mtu": UPDATE}


def test_a_default_is_filled_in_at_any_depth_and_is_no_change_of_a_state_that_is_older() -> None:
    rule = {"match": "m", "ruleNumber": 1}
    checked = check(NAT, {"name": "n", "router": "r", "sourceSubnetworkIpRangesToNat": "x", "rules": [rule]})
    assert checked["udpIdleTimeoutSec"] == 30
    assert "udpIdleTimeoutSec" in checked["__defaults"]
    assert checked["rules"] == [rule | {"__defaults": []}]
    older = {key: value for key, value in checked.items() if key not in (*checked["__defaults"], "__defaults")}
    assert found(NAT, older, checked) == {}
    assert found(NAT, checked | {"type": "PRIVATE", "__defaults": []}, checked) == {"type": REPLACE}
    budget = check("gcp:billing/budget:Budget", {"billingAccount": "b", "amount": {}, "budgetFilter": {}})
    assert budget["budgetFilter"]["__defaults"] == ["creditTypesTreatment"]
    vm = {"runtimeVersion": "r", "zone": "z", "acceleratorConfig": {"type": "V6E", "topology": "2x4"}}
    assert "acceleratorType" not in check("gcp:tpu/v2Vm:V2Vm", vm)


def test_a_name_that_is_no_longer_given_stays() -> None:
    made = check(BUCKET, {"name": "mine", "location": "eu"})
    assert check(BUCKET, {"location": "eu"}, made)["name"] == "mine"
    assert check(BUCKET, {"location": "eu"})["name"].startswith("x-")


def check(token: str, inputs: Values, olds: Values | None = None) -> Values:
    request = provider_pb2.CheckRequest(
        urn=f"urn:pulumi:t::cloud::{token}::x", news=to_struct(inputs), olds=to_struct(olds or {}), randomSeed=b"s"
    )
    nobody: Any = None
    answer = Server({"GOOGLE_PROJECT": "p"}, None).Check(request, nobody)
    assert not answer.failures
    return to_values(answer.inputs)


def test_a_topology_that_changes_is_planned_again_and_again_since_nothing_is_sent(tmp_path: Path) -> None:
    small, large = ({"type": "COMPACT", "tpuTopology": topology} for topology in ("4x4", "4x8"))
    made = {"cluster": "c", "name": "n", "nodeCount": 4, "placementPolicy": small}
    store = StandInStore(str(tmp_path), "")
    store.create(POOL, "id", made)
    nobody: Any = None
    request = provider_pb2.UpdateRequest(
        id="id",
        urn=f"urn:pulumi:t::cloud::{POOL}::x",
        olds=to_struct(store.marked(made)),
        news=to_struct(made | {"nodeCount": 8, "placementPolicy": large}),
    )
    left = to_values(Server({}, str(tmp_path)).Update(request, nobody).properties)
    stored = store.read(POOL, "id")
    assert stored
    for each in (left, stored):
        assert (each["nodeCount"], each["placementPolicy"]["tpuTopology"]) == (8, "4x4")
    inputs = made | {"placementPolicy": large}
    assert found(POOL, inputs, inputs, left) == {"placementPolicy.tpuTopology": UPDATE}


def test_a_policy_that_is_renamed_is_not_found_under_its_new_name() -> None:
    identifier = "projects/p/regions/r/resourcePolicies/a"
    with pytest.raises(
        ResourceError, match=r"Error 404: The resource 'projects/p/regions/r/resourcePolicies/b' was not"
    ):
        preconditions.check_update(POLICY, identifier, {"name": "a"}, {"name": "b"})
    preconditions.check_update(POLICY, identifier, {"name": "a"}, {"name": "a", "description": "d"})


@pytest.mark.parametrize("token", provider_fields.tokens())
def test_every_field_of_the_tables_is_one_of_the_sdk(token: str) -> None:
    fields = provider_fields.of(token)
    assert fields is not None
    named = (
        fields.replaced
        | fields.replaced_below
        | fields.computed
        | fields.unsent
        | fields.absent_after
        | {*fields.defaults}
    )
    assert [path for path in named if not is_there(resource_of(token), path)] == []


def is_there(resource: ResourceType, path: tuple[str, ...]) -> bool:
    fields = resource.inputs
    for depth, key in enumerate(path):
        if key not in fields:
            return False
        inner = _object_of(fields[key].type)
        if inner is None:
            return depth == len(path) - 1
        fields = schema.object_fields(inner) or {}
    return True


def _object_of(kind: Type) -> ObjectOf | None:
    match kind:
        case ListOf(item):
            return _object_of(item)
        case MapOf(value):
            return _object_of(value)
        case ObjectOf():
            return kind
        case _:
            return None
