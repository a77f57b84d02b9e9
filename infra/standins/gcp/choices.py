"""Which values the official plugin takes where it takes only some, as tables.

Owns the closed choices, forms and limits that the official plugin checks itself, and which keys conflict. Refuses to
own anything that it lets pass (machine types, TPU topologies, bucket names, placement types); those checks are
Slipway's, in settings and the hardware table.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable

type Check = Callable[[str], str | None]


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"expected one of {', '.join(allowed)}"


def _form(pattern: str, words: str) -> Check:
    return lambda value: None if re.fullmatch(pattern, value) else f"expected {words} ({pattern})"


def _or_empty(check: Check) -> Check:
    """The same check, which lets an empty text pass: most enumerations of the API read it as none."""
    return lambda value: check(value) if value else None


def _at_least(least: int) -> Check:
    """What is no number is another check's."""
    return lambda value: f"expected at least {least}" if _is_below(value, least) else None


def _is_below(value: str, least: int) -> bool:
    try:
        return float(value) < least
    except ValueError:
        return False


def _cidr(value: str) -> str | None:
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        return f"expected a CIDR range such as 10.0.0.0/16: {error}"
    return None if "/" in value else "expected a CIDR range such as 10.0.0.0/16"


def _cidr_28(value: str) -> str | None:
    return _cidr(value) or (None if value.endswith("/28") else "expected a CIDR range of 16 addresses (/28)")


_NAME = _form("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "a name of 1-63 lowercase letters, digits and dashes")
_ACCOUNT_ID = _form("[a-z][-a-z0-9]{4,28}[a-z0-9]", "6-30 lowercase letters, digits and dashes")
_NODE_RESERVATION = _one_of(
    "UNSPECIFIED", "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION", "ANY_RESERVATION_THEN_FAIL"
)
_VM_RESERVATION = _one_of("ANY_RESERVATION", "SPECIFIC_RESERVATION", "NO_RESERVATION")

_CLUSTER_NAME = _form("[a-z]([-a-z0-9]{0,38}[a-z0-9])?", "a name of 1-40 lowercase letters, digits and dashes")
_POOLS = ("container.NodePool", "container.ClusterNodePool")
_NODE_CONFIGS = ("container.ClusterNodeConfig", *(f"{pool}NodeConfig" for pool in _POOLS))

# Of node pools, which are resources and may stand in a cluster too. (what follows the class, key, check)
_OF_POOLS: tuple[tuple[str, str, Check], ...] = (
    ("Args", "nodeCount", _at_least(0)),
    ("AutoscalingArgs", "minNodeCount", _at_least(0)),
    ("AutoscalingArgs", "maxNodeCount", _at_least(0)),
    ("AutoscalingArgs", "totalMinNodeCount", _at_least(0)),
    ("AutoscalingArgs", "totalMaxNodeCount", _at_least(0)),
    ("AutoscalingArgs", "locationPolicy", _one_of("BALANCED", "ANY")),
    ("UpgradeSettingsArgs", "strategy", _one_of("SURGE", "BLUE_GREEN")),
    ("UpgradeSettingsArgs", "maxSurge", _at_least(0)),
    ("UpgradeSettingsArgs", "maxUnavailable", _at_least(0)),
)

# Of what nodes are, which a cluster and its pools have.
_OF_NODES: tuple[tuple[str, str, Check], ...] = (
    ("Args", "diskSizeGb", _at_least(10)),
    ("Args", "localSsdCount", _at_least(0)),
    ("EphemeralStorageLocalSsdConfigArgs", "localSsdCount", _at_least(0)),
    (
        "GuestAcceleratorGpuDriverInstallationConfigArgs",
        "gpuDriverVersion",
        _one_of("GPU_DRIVER_VERSION_UNSPECIFIED", "INSTALLATION_DISABLED", "DEFAULT", "LATEST"),
    ),
    (
        "HostMaintenancePolicyArgs",
        "maintenanceInterval",
        _one_of("MAINTENANCE_INTERVAL_UNSPECIFIED", "AS_NEEDED", "PERIODIC"),
    ),
    ("ReservationAffinityArgs", "consumeReservationType", _NODE_RESERVATION),
    ("TaintArgs", "effect", _one_of("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")),
    ("WorkloadMetadataConfigArgs", "mode", _one_of("MODE_UNSPECIFIED", "GCE_METADATA", "GKE_METADATA")),
)

# (package.Args class, key, check), from the ValidateFunc of each field in the Google provider's source
# (terraform-provider-google-beta at 93c65b2d). A run of plugin 9.35 was seen to refuse by each kind of check.
CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("compute.NetworkArgs", "name", _NAME),
    ("compute.NetworkArgs", "routingMode", _or_empty(_one_of("REGIONAL", "GLOBAL"))),
    ("compute.SubnetworkArgs", "name", _NAME),
    ("compute.SubnetworkArgs", "ipCidrRange", _cidr),
    ("compute.SubnetworkSecondaryIpRangeArgs", "ipCidrRange", _cidr),
    ("compute.FirewallArgs", "name", _NAME),
    ("compute.RouterArgs", "name", _NAME),
    ("compute.RouterNatArgs", "name", _NAME),
    ("compute.*ReservationAffinityArgs", "type", _VM_RESERVATION),
    ("compute.ResourcePolicyGroupPlacementPolicyArgs", "collocation", _or_empty(_one_of("COLLOCATED"))),
    ("compute.ResourcePolicyWorkloadPolicyArgs", "type", _one_of("HIGH_AVAILABILITY", "HIGH_THROUGHPUT")),
    (
        "compute.ResourcePolicyWorkloadPolicyArgs",
        "acceleratorTopologyMode",
        _or_empty(_one_of("AUTO_CONNECT", "PROVISION_ONLY")),
    ),
    (
        "compute.ResourcePolicyWorkloadPolicyArgs",
        "maxTopologyDistance",
        _or_empty(_one_of("BLOCK", "CLUSTER", "SUBBLOCK")),
    ),
    ("container.ClusterArgs", "name", _CLUSTER_NAME),
    ("container.ClusterArgs", "networkingMode", _one_of("VPC_NATIVE", "ROUTES")),
    (
        "container.ClusterArgs",
        "datapathProvider",
        _one_of("DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH"),
    ),
    (
        "container.ClusterReleaseChannelArgs",
        "channel",
        _one_of("UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED"),
    ),
    ("container.ClusterPrivateClusterConfigArgs", "masterIpv4CidrBlock", _or_empty(_cidr_28)),
    *((pool + ending, key, check) for pool in _POOLS for ending, key, check in _OF_POOLS),
    *((nodes + ending, key, check) for nodes in _NODE_CONFIGS for ending, key, check in _OF_NODES),
    ("serviceaccount.AccountArgs", "accountId", _ACCOUNT_ID),
    ("tpu.V2VmDataDiskArgs", "mode", _or_empty(_one_of("READ_WRITE", "READ_ONLY"))),
)

# The same for the keys of a map.
_LABEL_KEY = _form(r"[a-z0-9_-]{1,63}", "1-63 lowercase letters, digits, dashes and underscores")
KEY_CHECKS: tuple[tuple[str, str, Check], ...] = (("storage.BucketArgs", "labels", _LABEL_KEY),)

# Keys of which a resource takes at most one (ConflictsWith of the same source).
_POLICIES = ("diskConsistencyGroupPolicy", "groupPlacementPolicy", "instanceSchedulePolicy", "snapshotSchedulePolicy")
_TOPOLOGY = "compute.ResourcePolicyWorkloadPolicyArgs"
CONFLICTS: tuple[tuple[str, str, str], ...] = (
    *(("compute.ResourcePolicyArgs", key, other) for key, other in itertools.combinations(_POLICIES, 2)),
    (_TOPOLOGY, "acceleratorTopology", "maxTopologyDistance"),
    (_TOPOLOGY, "acceleratorTopologyMode", "maxTopologyDistance"),
    ("container.ClusterArgs", "clusterIpv4Cidr", "ipAllocationPolicy"),
    ("tpu.V2VmArgs", "acceleratorType", "acceleratorConfig"),
)
