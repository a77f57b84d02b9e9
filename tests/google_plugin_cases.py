"""What Google's plugin plans and takes, case by case, by a run of 9.35 or by its source.

Owns the cases. tests/unit/ asks the stand-in; tests/engine/test_gcp_standin.py asks the plugin too, where it is to be
had.
"""

from __future__ import annotations

from typing import Any

type Values = dict[str, Any]

BUCKET, NETWORK = "gcp:storage/bucket:Bucket", "gcp:compute/network:Network"
SUBNET, FIREWALL = "gcp:compute/subnetwork:Subnetwork", "gcp:compute/firewall:Firewall"
KEY, SECRET = "gcp:kms/cryptoKey:CryptoKey", "gcp:secretmanager/secret:Secret"
REPOSITORY, NAT = "gcp:artifactregistry/repository:Repository", "gcp:compute/routerNat:RouterNat"
CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
POLICY, GRANT = "gcp:compute/resourcePolicy:ResourcePolicy", "gcp:projects/iAMMember:IAMMember"

UPDATE, REPLACE, NOTHING = "update", "replace", "nothing"


def nodes(**config: Any) -> Values:
    return {"nodeConfig": {"machineType": "ct6e-standard-4t", **config}}


def remote(**config: Any) -> Values:
    return {"remoteRepositoryConfig": {"description": "d", **config}}


# A type, inputs before and after, and what that is.
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
    (POOL, {}, {"networkConfig": {"podRange": "r"}}, REPLACE),
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
    # the order of what is a set
    (POOL, nodes(oauthScopes=["a", "b"]), nodes(oauthScopes=["b", "a"]), NOTHING),
    (POOL, {"nodeLocations": ["a", "b"]}, {"nodeLocations": ["b", "a"]}, NOTHING),
    (
        FIREWALL,
        {"allows": [{"protocol": "tcp"}, {"protocol": "udp"}]},
        {"allows": [{"protocol": "udp"}, {"protocol": "tcp"}]},
        NOTHING,
    ),
    (POOL, nodes(oauthScopes=["a", "b"]), nodes(oauthScopes=["a", "a"]), REPLACE),
)

# Values that the plugin does not take, each with the key that it names.
NOT_TAKEN: tuple[tuple[str, Values, str], ...] = (
    (CLUSTER, {"releaseChannel": {"channel": "WEEKLY"}}, "channel"),
    (CLUSTER, {"datapathProvider": "CILIUM"}, "datapathProvider"),
    (CLUSTER, {"name": "c" * 41}, "name"),
    (CLUSTER, {"name": "Capital"}, "name"),
    (CLUSTER, {"privateClusterConfig": {"masterIpv4CidrBlock": "172.16.0.0/27"}}, "masterIpv4CidrBlock"),
    (CLUSTER, {"nodeConfig": {"diskSizeGb": 9}}, "diskSizeGb"),
    (POOL, {"cluster": "c", "nodeCount": -1}, "nodeCount"),
    (POOL, {"cluster": "c", "autoscaling": {"maxNodeCount": -1}}, "maxNodeCount"),
    (POOL, {"cluster": "c", "autoscaling": {"locationPolicy": "NEAR"}}, "locationPolicy"),
    (POOL, {"cluster": "c", "upgradeSettings": {"strategy": "BIG_BANG"}}, "strategy"),
    (POOL, {"cluster": "c", "nodeConfig": {"diskSizeGb": 9}}, "diskSizeGb"),
    (POOL, {"cluster": "c", "nodeConfig": {"workloadMetadataConfig": {"mode": "NONE"}}}, "mode"),
    (
        POOL,
        {
            "cluster": "c",
            "nodeConfig": {
                "guestAccelerators": [
                    {"type": "t", "count": 8, "gpuDriverInstallationConfig": {"gpuDriverVersion": "550"}}
                ]
            },
        },
        "gpuDriverVersion",
    ),
    (POLICY, {"workloadPolicy": {"type": "FAST"}}, "type"),
    (
        POLICY,
        {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopologyMode": "X"}},
        "acceleratorTopologyMode",
    ),
    (POLICY, {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "maxTopologyDistance": "RACK"}}, "maxTopologyDistance"),
    (POLICY, {"groupPlacementPolicy": {"collocation": "APART"}}, "collocation"),
    (
        POLICY,
        {"groupPlacementPolicy": {}, "diskConsistencyGroupPolicy": {"enabled": True}},
        "diskConsistencyGroupPolicy",
    ),
    (
        POLICY,
        {
            "workloadPolicy": {
                "type": "HIGH_THROUGHPUT",
                "acceleratorTopology": "2x2x2",
                "maxTopologyDistance": "BLOCK",
            }
        },
        "acceleratorTopology",
    ),
)

# Values that it does take, wrong as they are.
TAKEN: tuple[tuple[str, Values], ...] = (
    (POOL, {"cluster": "c", "name": "n" * 60, "nodeConfig": {"spot": True, "flexStart": True}}),
    (POOL, {"cluster": "c", "nodeConfig": {"maxRunDuration": "a week"}}),
    (POOL, {"cluster": "c", "nodeCount": 4, "autoscaling": {"minNodeCount": 0, "maxNodeCount": 8}}),
    (POOL, {"cluster": "c", "queuedProvisioning": {"enabled": True}}),
    (POLICY, {"groupPlacementPolicy": {"vmCount": 2}, "workloadPolicy": {"type": "HIGH_AVAILABILITY"}}),
    (CLUSTER, {"enableMultiNetworking": True}),
)
