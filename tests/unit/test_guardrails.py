"""Each rule: what breaks it, what it says, what passes, and that the stack can allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest

from infra import names
from infra.rules import enforce
from infra.rules.guardrails import BILLABLE, RULES, Declared, labelled, problems, unknown_rules
from infra.standins.gcp import schema

FIREWALL = "gcp:compute/firewall:Firewall"
INSTANCE = "gcp:compute/instance:Instance"
NETWORK = "gcp:compute/network:Network"
BUCKET = "gcp:storage/bucket:Bucket"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
VM = "gcp:tpu/v2Vm:V2Vm"
REQUEST = "slipway:tpu:QueuedResource"
TCP = {"allows": [{"protocol": "tcp"}]}
SAFE = {"uniformBucketLevelAccess": True, "publicAccessPrevention": "enforced", "location": "us-central1"}
PRIVATE = {"privateClusterConfig": {"enablePrivateNodes": True}, "location": "us-central1"}
HOST = "slipway-us-central1@my-project.iam.gserviceaccount.com"
DEFAULT = "123-compute@developer.gserviceaccount.com"


def pool(machine: str = "ct6e-standard-4t", **inputs: Any) -> dict[str, Any]:
    return {"location": "us-east5", "nodeConfig": {"machineType": machine, "serviceAccount": HOST}} | inputs


def nodes(machine: str = "ct6e-standard-4t", pool: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """A pool by what its nodes are, and in `pool` what it says besides."""
    whole = {"location": "us-east5", "nodeConfig": {"machineType": machine, "serviceAccount": HOST} | config}
    return whole | (pool or {})


POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
FLEXIBLE = {"autoscaling": {"minNodeCount": 0, "maxNodeCount": 1}, "management": {"autoRepair": False}}
WEEK = "604800s"
ANY, SPECIFIC = ({"consumeReservationType": f"{kind}_RESERVATION"} for kind in ("ANY", "SPECIFIC"))
COMPACT = {"type": "COMPACT", "tpuTopology": "2x2x2"}

# what of its nodes, part of what is said
POOLS: list[tuple[dict[str, Any], str]] = [
    ({"spot": True, "flexStart": True}, "nodeConfig has spot and flexStart; a node is had on one of these terms"),
    ({"spot": True, "preemptible": True}, "nodeConfig has spot and preemptible"),
    ({"flexStart": True, "pool": FLEXIBLE}, "flexStart is true without maxRunDuration; give one of at most 7 days"),
    ({"flexStart": True, "maxRunDuration": "a week", "pool": FLEXIBLE}, "maxRunDuration is 'a week'; give seconds"),
    ({"flexStart": True, "maxRunDuration": "604801s", "pool": FLEXIBLE}, "at most 7 days: 604800s"),
    ({"flexStart": True, "maxRunDuration": WEEK, "pool": FLEXIBLE | {"management": {}}}, "set it to false"),
    ({"flexStart": True, "maxRunDuration": WEEK, "pool": FLEXIBLE | {"nodeCount": 1}}, "leave nodeCount out, and give"),
    ({"pool": {"queuedProvisioning": {"enabled": True}}}, "queuedProvisioning is on without nodeConfig.flexStart"),
    ({"reservationAffinity": SPECIFIC}, "SPECIFIC_RESERVATION without key and values; name the reservation"),
    ({"spot": True, "reservationAffinity": ANY}, "ANY_RESERVATION, but spot and flex-start take none"),
    ({"pool": {"nodeCount": 1, "autoscaling": {"maxNodeCount": 1}}}, "nodeCount is given beside autoscaling"),
    (
        {
            "pool": {
                "autoscaling": {"totalMaxNodeCount": 8},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x8"},
            }
        },
        "autoscaling has totalMaxNodeCount, which the plugin sends as a maximum of 0",
    ),
    ({"machine": "tpu7x-standard-4t", "pool": {"placementPolicy": COMPACT}}, "tpu7x-standard-4t is placed by a work"),
    (
        {"machine": "ct6e-standard-8t", "pool": {"placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"}}},
        "topology 2x4 of ct6e-standard-8t is one host and needs no place",
    ),
]

UNKNOWN = object()  # stands for an Output of the SDK

# rule, type, inputs that break it, part of what is said
BROKEN: list[tuple[str, str, dict[str, Any], str]] = [
    ("no-open-ingress", FIREWALL, TCP | {"sourceRanges": ["10.0.0.0/8", "0.0.0.0/0"]}, "lets 0.0.0.0/0 in"),
    ("no-open-ingress", FIREWALL, TCP | {"sourceRanges": ["::/0"]}, "lets ::/0 in"),
    ("no-open-ingress", FIREWALL, TCP | {"sourceRanges": ["1.2.3.4/0"]}, "lets 1.2.3.4/0 in"),
    ("no-open-ingress", FIREWALL, TCP, "names no source, which Google reads as 0.0.0.0/0; give sourceServiceAccounts"),
    (
        "no-open-control-plane",
        CLUSTER,
        PRIVATE | {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "0.0.0.0/0"}]}},
        "its control plane lets 0.0.0.0/0 in; give the range",
    ),
    (
        "no-external-ip",
        INSTANCE,
        {"networkInterfaces": [{"network": "n", "accessConfigs": [{"networkTier": "PREMIUM"}]}]},
        "accessConfigs gives it an external IP; leave it out",
    ),
    (
        "no-external-ip",
        VM,
        {"serviceAccount": {"email": HOST}, "networkConfig": {"enableExternalIps": True}},
        "enableExternalIps is true; set it to false",
    ),
    ("no-external-ip", "gcp:compute/address:Address", {"region": "us-east5"}, "set addressType to INTERNAL"),
    ("no-external-ip", CLUSTER, {"location": "us-east5"}, "set privateClusterConfig.enablePrivateNodes to true"),
    (
        "no-public-member",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        {"bucket": "b", "role": "roles/storage.objectViewer", "member": "allUsers"},
        "grants roles/storage.objectViewer to allUsers, the whole world; name who needs it",
    ),
    (
        "no-public-member",
        "gcp:artifactregistry/repositoryIamBinding:RepositoryIamBinding",
        {"role": "r", "members": ["user:a@b.c", "allAuthenticatedUsers"]},
        "to allAuthenticatedUsers",
    ),
    ("no-default-account", VM, {}, "names no service account, so it gets the default one"),
    ("no-default-account", VM, {"serviceAccount": {"email": DEFAULT}}, f"uses the default service account '{DEFAULT}'"),
    ("no-default-account", POOL, {"location": "l-a1", "nodeConfig": {"machineType": "n2-standard-4"}}, "names no serv"),
    ("no-default-account", REQUEST, {"serviceAccount": ""}, "names no service account"),
    ("no-external-ip", REQUEST, {"serviceAccount": HOST, "networks": [{"enableExternalIps": True}]}, "set it to false"),
    ("accelerator-type", REQUEST, {"serviceAccount": HOST, "acceleratorType": "v6e-9"}, "nearest: v6e-"),
    ("no-default-account", INSTANCE, {"serviceAccount": {"email": "default"}}, "uses the default service account"),
    (
        "no-default-account",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        {"member": f"serviceAccount:{DEFAULT}"},
        "give the foundation's",
    ),
    (
        "no-project-role",
        "gcp:projects/iAMMember:IAMMember",
        {"project": "p", "role": "roles/editor", "member": f"serviceAccount:{HOST}"},
        "grants roles/editor on everything in the project; grant a role on the bucket",
    ),
    (
        "no-project-role",  # a binding takes the role from everybody else
        "gcp:projects/iAMBinding:IAMBinding",
        {"project": "p", "role": "roles/logging.logWriter", "members": [f"serviceAccount:{HOST}"]},
        "grants roles/logging.logWriter on everything in the project",
    ),
    ("no-project-role", "gcp:projects/iAMPolicy:IAMPolicy", {"policyData": "{}"}, "grants its roles on everything"),
    ("bucket-protected", BUCKET, SAFE | {"name": "runs"}, "lacks the option protect, the option retain_on_delete; add"),
    (
        "bucket-protected",
        BUCKET,
        {"name": "runs", "location": "us-central1", "forceDestroy": True},
        "uniformBucketLevelAccess: true, publicAccessPrevention: enforced, forceDestroy: false; add it",
    ),
    ("labels", "gcp:secretmanager/secret:Secret", {"labels": {"Owner": "me"}}, "label key 'Owner' is not 1-63"),
    ("labels", CLUSTER, PRIVATE | {"resourceLabels": {"owner": "me@x"}}, "label owner is 'me@x'; give at most 63"),
    ("bucket-name", BUCKET, SAFE | {"name": "UPPER_case"}, "bucket name 'UPPER_case' (10 characters) is not 3-63"),
    ("bucket-name", BUCKET, SAFE | {"name": "my-google-data"}, "holds 'google'"),
    ("bucket-name", BUCKET, SAFE | {"name": "10.0.0.1"}, "reads like an address"),
    ("location", POOL, {"nodeConfig": {"serviceAccount": HOST}}, "has no location"),
    ("location", "gcp:compute/router:Router", {"region": "us-central1-a"}, "region is 'us-central1-a'; give a region"),
    ("location", INSTANCE, {"zone": "us-central1"}, "zone is 'us-central1'; give a zone, like us-central1-a"),
    ("location", BUCKET, SAFE | {"location": "usa"}, "location is 'usa'; give a region or zone"),
    ("mtu", NETWORK, {"mtu": 99999}, "mtu is 99999; give 1300 to 8896"),
    (
        "machine-type",
        POOL,
        pool("ct6e-standard-3t"),
        "'ct6e-standard-3t' is not in infra/hardware.yaml; nearest: ct6e-",
    ),
    ("machine-type", INSTANCE, {"machineType": "big"}, "machine type 'big' is not in infra/hardware.yaml"),
    (
        "accelerator-type",
        VM,
        {"serviceAccount": {"email": HOST}, "acceleratorType": "v6e-33"},
        "accelerator type 'v6e-33' is not in infra/hardware.yaml; nearest: v6e-32",
    ),
    (
        "guest-accelerator",
        POOL,
        {
            "location": "us-east5",
            "nodeConfig": {"serviceAccount": HOST, "guestAccelerators": [{"type": "nvidia-h100", "count": 8}]},
        },
        "accelerator 'nvidia-h100' is not in infra/hardware.yaml; nearest: nvidia-h100-80gb",
    ),
    (
        "topology",
        POOL,
        pool(placementPolicy={"type": "SCATTERED"}),
        "placementPolicy.type is 'SCATTERED'; give COMPACT",
    ),
    (
        "topology",
        POOL,
        pool(placementPolicy={"tpuTopology": "banana"}),
        "TPU topology 'banana' is none of ct6e-standar",
    ),
    (
        "topology",
        POOL,
        pool(placementPolicy={"type": "COMPACT", "tpuTopology": "4x8"}, nodeCount=4),
        "TPU topology 4x8 of ct6e-standard-4t has 8 hosts, but nodeCount is 4; give 8",
    ),
    (
        "topology",
        "gcp:compute/resourcePolicy:ResourcePolicy",
        {"workloadPolicy": {"acceleratorTopology": "3x3"}},
        "TPU topology '3x3' is none in infra/hardware.yaml; nearest: ",
    ),
    *(("node-pool", POOL, nodes(**inputs), said) for inputs, said in POOLS),
    (
        "multi-networking",
        CLUSTER,
        PRIVATE | {"enableMultiNetworking": True},
        "enableMultiNetworking is true without datapathProvider ADVANCED_DATAPATH",
    ),
    (
        "node-pool",
        POOL,
        nodes(machineType="a3-megagpu-8g", guestAccelerators=[{"type": "nvidia-h100-mega-80gb", "count": 4}]),
        "guestAccelerators are 4 nvidia-h100-mega-80gb; a a3-megagpu-8g has 8 nvidia-h100-mega-80gb",
    ),
    (
        "node-pool",
        POOL,
        nodes(machineType="a3-megagpu-8g", pool={"networkConfig": {"additionalNodeNetworkConfigs": [{}] * 7}}),
        "networkConfig names 7 networks beside the first, but a a3-megagpu-8g has 8 network cards for data",
    ),
    (
        "workload-policy",
        POLICY,
        {"workloadPolicy": {"type": "HIGH_THROUGHPUT"}, "groupPlacementPolicy": {"collocation": "COLLOCATED"}},
        "it has workloadPolicy and groupPlacementPolicy; give one of them",
    ),
    (
        "workload-policy",
        POLICY,
        {"workloadPolicy": {"type": "HIGH_AVAILABILITY", "acceleratorTopology": "2x2x2"}},
        "workloadPolicy is HIGH_AVAILABILITY with a topology",
    ),
]

PASSES: list[Declared] = [
    *(
        Declared("gcp:projects/iAMMember:IAMMember", "x", {"role": role, "member": f"serviceAccount:{HOST}"})
        for role in ("roles/logging.logWriter", "roles/monitoring.metricWriter")
    ),
    Declared(FIREWALL, "x", TCP | {"sourceServiceAccounts": [HOST]}),
    Declared(FIREWALL, "x", TCP | {"sourceRanges": ["35.235.240.0/20"]}),
    Declared(FIREWALL, "x", TCP | {"sourceRanges": UNKNOWN}),
    Declared(FIREWALL, "x", TCP | {"direction": "EGRESS", "destinationRanges": ["0.0.0.0/0"]}),
    Declared(FIREWALL, "x", {"denies": [{"protocol": "all"}], "sourceRanges": ["0.0.0.0/0"]}),
    Declared(BUCKET, "x", SAFE | {"name": UNKNOWN}, protect=True, retain_on_delete=True),
    Declared(BUCKET, "x", SAFE | {"location": "US"}, protect=True, retain_on_delete=True),
    Declared(CLUSTER, "x", PRIVATE | {"resourceLabels": UNKNOWN}),
    Declared(CLUSTER, "x", PRIVATE | {"enableMultiNetworking": True, "datapathProvider": UNKNOWN}),
    Declared(CLUSTER, "x", {"location": "us-east5", "privateClusterConfig": UNKNOWN}),
    Declared(VM, "x", {"serviceAccount": UNKNOWN, "acceleratorType": "v5litepod-16"}),
    Declared(POOL, "x", pool(placementPolicy={"type": "COMPACT", "tpuTopology": "4x8"}, nodeCount=8)),
    Declared(POOL, "x", pool("n2-standard-4", nodeCount=UNKNOWN)),
    Declared(POOL, "x", {"location": "us-east5", "nodeConfig": {"serviceAccount": HOST, "labels": {"K8s.io/x": "Y"}}}),
    Declared(POOL, "x", nodes(flexStart=True, maxRunDuration=WEEK, pool=FLEXIBLE)),
    Declared(POOL, "x", nodes(flexStart=True, maxRunDuration=UNKNOWN, pool=FLEXIBLE)),
    Declared(POLICY, "x", {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}}),
    Declared(NETWORK, "x", {"mtu": 8896}),
    Declared(NETWORK, "x", {"mtu": UNKNOWN}),
    Declared("gcp:projects/service:Service", "x", {"service": "tpu.googleapis.com"}),
    Declared("gcp:compute/address:Address", "x", {"addressType": "INTERNAL"}),
    Declared("random:index/randomId:RandomId", "x", {"accessConfigs": [{}]}),
]


def rule_names(declared: Declared) -> set[str]:
    """The rules that a resource breaks, by what each sentence says to allow."""
    return {said.rpartition("[")[2].rstrip("]") for said in problems(declared, ())}


@pytest.mark.parametrize(("rule", "token", "inputs", "said"), BROKEN, ids=lambda value: str(value)[:40])
def test_broken_rule_says_what_to_do_and_can_be_allowed(
    rule: str, token: str, inputs: dict[str, Any], said: str
) -> None:
    declared = Declared(token, "thing", inputs)
    (sentence,) = [each for each in problems(declared, ()) if f"[{rule}]" in each]
    assert sentence.startswith(f"thing ({token}): ")
    assert said in sentence
    assert sentence.endswith(f". If it is meant, allow it: slipway:allow: [{rule}]")
    assert "\n" not in sentence
    assert rule not in rule_names(declared) - {rule}
    assert not [each for each in problems(declared, (rule,)) if f"[{rule}]" in each]


@pytest.mark.parametrize("declared", PASSES, ids=lambda declared: declared.token.rpartition(":")[2])
def test_what_is_fine_or_not_known_yet_passes(declared: Declared) -> None:
    assert problems(declared, ()) == []


def test_every_rule_has_a_case_that_breaks_it() -> None:
    assert {rule for rule, *_ in BROKEN} == {rule.name for rule in RULES}


def test_rule_that_there_is_not_cannot_be_allowed() -> None:
    assert unknown_rules(["mtu", "bucket-name"]) is None
    assert unknown_rules(["no-externalip"]) == "allow names 'no-externalip', which is no rule; nearest: no-external-ip"


# --- labels ---


def test_billed_resources_get_the_labels_they_lack() -> None:
    labels = names.labels("ada", "v6e-32")
    assert labels == {"slipway-owner": "ada", "slipway-stack": "v6e-32"}
    bucket = Declared(BUCKET, "x", {"labels": {"team": "t", "slipway-owner": "bob"}})
    assert labelled(bucket, labels)["labels"] == {"team": "t", "slipway-owner": "bob", "slipway-stack": "v6e-32"}
    assert labelled(replace(bucket, inputs={}), labels) == {"labels": labels}
    nodes = Declared(POOL, "x", pool())
    assert labelled(nodes, labels)["nodeConfig"]["resourceLabels"] == labels
    assert labelled(nodes, labels)["nodeConfig"]["machineType"] == "ct6e-standard-4t"
    for token in (FIREWALL, NETWORK):
        free = Declared(token, "x", {})
        assert labelled(free, labels) is free.inputs
    assert labelled(replace(bucket, inputs={"labels": UNKNOWN}), labels) == {"labels": UNKNOWN}


@pytest.mark.parametrize("token", [token for token in BILLABLE if token.startswith("gcp:")])
def test_types_that_are_labelled_exist_and_have_the_key(token: str) -> None:
    first, *rest = BILLABLE[token]
    found = schema.resource_type(token)
    assert found is not None
    kind = found.inputs[first].type
    if rest:
        assert isinstance(kind, schema.ObjectOf)
        fields = schema.object_fields(kind)
        assert fields is not None
        kind = fields[rest[0]].type
    assert isinstance(kind, schema.MapOf)


# --- from the SDK's resources to what rules see ---


@pytest.mark.filterwarnings("ignore:gcp.storage.getTransferProjectServieAccount")  # at import, once
def test_typed_inputs_are_seen_as_on_the_wire() -> None:
    assert enforce.to_wire(
        {
            "uniform_bucket_level_access": True,
            "labels": {"not_a_key": "v"},
            "lifecycle_rules": [
                gcp.storage.BucketLifecycleRuleArgs(
                    action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=gcp.storage.BucketLifecycleRuleConditionArgs(days_since_noncurrent_time=3),
                )
            ],
            "storage_class": None,
        }
    ) == {
        "uniformBucketLevelAccess": True,
        "labels": {"not_a_key": "v"},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"daysSinceNoncurrentTime": 3}}],
    }


def test_outputs_stay_outputs() -> None:
    output = object.__new__(pulumi.Output)
    assert enforce.to_wire({"network": output, "names": [output]}) == {"network": output, "names": [output]}
