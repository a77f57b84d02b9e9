"""What the SDK's source does not say of a resource type: its id, what a change replaces, what the cloud fills in.

Owns: one row per type whose id or outputs other resources are built from; every other type gets a made-up id. Rows
follow the "Import" and "Attributes" parts of each type's page in the provider's documentation, replaces its ForceNew.
Refuses to own: inputs and their types (schema.py), how outputs are made of a row (outputs.py), and state (store.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.standins.gcp import gke
from infra.standins.gcp.schema import ResourceType

# Text with words in braces; an object of such; or a tuple of one, which is filled once for each zone of the nodes.
type Template = str | tuple[str, ...] | Mapping[str, Template]


def _no_words(inputs: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    return {}


# Where a thing lies and what it is called cannot be changed, whatever it is.
_ALWAYS_REPLACED = frozenset(("name", "project", "location", "region", "zone"))


@dataclass(frozen=True)
class Kind:
    """id and outputs are templates over inputs, provider defaults, `{id}` and `words`.

    words: of inputs and of the words there are, more of them.
    replaces: keys whose change replaces the resource, besides _ALWAYS_REPLACED and the keys in its id.
    updates: keys of _ALWAYS_REPLACED that this type can change. widens: ranges of addresses, whose change replaces
    unless the new range holds all of the old. shared: a grant, which two resources may make.
    """

    id: str
    replaces: frozenset[str] = frozenset()
    outputs: Mapping[str, Template] = field(default_factory=dict[str, Template])
    updates: frozenset[str] = frozenset()
    widens: frozenset[str] = frozenset()
    shared: bool = False
    words: Callable[[Mapping[str, Any], Mapping[str, str]], Mapping[str, str]] = _no_words


def _compute(path: str, *replaces: str, widens: tuple[str, ...] = (), **outputs: str) -> Kind:
    made = {"selfLink": "https://www.googleapis.com/compute/v1/{id}", **outputs}
    return Kind("projects/{project}/" + path, frozenset(replaces), made, widens=frozenset(widens))


def _grant(of: str) -> Kind:
    return Kind(of + "/{role}/{member}", frozenset(("condition",)), shared=True)


_IN_LOCATION = "projects/{project}/locations/{location}/"
_GROUPS = "https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/"
_GROUP = "gke-{clusterPart}-{poolPart}-{groupHash}-grp"
_KINDS: dict[str, Kind] = {
    "gcp:compute/network:Network": _compute(
        "global/networks/{name}", "autoCreateSubnetworks", "description", networkId="{number}", numericId="{number}"
    ),
    "gcp:compute/subnetwork:Subnetwork": _compute(
        "regions/{region}/subnetworks/{name}", "network", "description", "purpose", widens=("ipCidrRange",)
    ),
    "gcp:compute/firewall:Firewall": _compute("global/firewalls/{name}", "network", "direction"),
    "gcp:compute/router:Router": _compute("regions/{region}/routers/{name}", "network"),
    "gcp:compute/routerNat:RouterNat": Kind("{project}/{region}/{router}/{name}"),
    "gcp:compute/address:Address": _compute(
        "regions/{region}/addresses/{name}", "addressType", "network", "subnetwork"
    ),
    "gcp:compute/globalAddress:GlobalAddress": _compute("global/addresses/{name}", "addressType", "network", "purpose"),
    "gcp:compute/instance:Instance": _compute(
        "zones/{zone}/instances/{name}", "bootDisk", "canIpForward", "guestAccelerators", instanceId="{number}"
    ),
    "gcp:compute/resourcePolicy:ResourcePolicy": _compute("regions/{region}/resourcePolicies/{name}", "workloadPolicy"),
    gke.CLUSTER: Kind(
        _IN_LOCATION + "clusters/{name}",
        frozenset(("network", "subnetwork", "ipAllocationPolicy", "initialNodeCount")),
        {
            "controlPlaneEndpointsConfig": {
                "dnsEndpointConfig": {"endpoint": "gke-{urnHash}-{number}.{region}.gke.goog"},
            },
            "endpoint": "{endpoint}",
            "labelFingerprint": "{urnHash}",
            "masterAuth": {"clientCertificate": "", "clientKey": "", "clusterCaCertificate": "{certificate}"},
            "masterVersion": "{version}",
            "nodeLocations": ("{zone}",),
            "nodeVersion": "{version}",
            "privateClusterConfig": {"privateEndpoint": "{privateEndpoint}", "publicEndpoint": "{publicEndpoint}"},
            "selfLink": "https://container.googleapis.com/v1/{id}",
            "servicesIpv4Cidr": "34.118.224.0/20",
        },
        words=gke.cluster_words,
    ),
    gke.POOL: Kind(
        _IN_LOCATION + "clusters/{clusterName}/nodePools/{name}",
        frozenset(("cluster", "placementPolicy", "queuedProvisioning", "initialNodeCount", "maxPodsPerNode")),
        {
            "initialNodeCount": "{initialNodeCount}",
            "instanceGroupUrls": (_GROUPS + "instanceGroupManagers/" + _GROUP,),
            "managedInstanceGroupUrls": (_GROUPS + "instanceGroups/" + _GROUP,),
            "maxPodsPerNode": "110",
            "nodeCount": "{nodeCount}",
            "nodeLocations": ("{zone}",),
            "version": "{version}",
        },
        words=gke.pool_words,
    ),
    "gcp:tpu/v2Vm:V2Vm": Kind(
        "projects/{project}/locations/{zone}/nodes/{name}",
        frozenset(("acceleratorType", "acceleratorConfig", "runtimeVersion", "networkConfig", "schedulingConfig")),
    ),
    "gcp:storage/bucket:Bucket": Kind(
        "{name}",
        frozenset(("customPlacementConfig", "enableObjectRetention")),
        {"url": "gs://{name}", "selfLink": "https://www.googleapis.com/storage/v1/b/{name}"},
        updates=frozenset(("project",)),
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _grant("b/{bucket}"),
    "gcp:serviceaccount/account:Account": Kind(
        "projects/{project}/serviceAccounts/{accountId}@{mailProject}.iam.gserviceaccount.com",
        outputs={
            "email": "{accountId}@{mailProject}.iam.gserviceaccount.com",
            "member": "serviceAccount:{accountId}@{mailProject}.iam.gserviceaccount.com",
            "name": "{id}",
            "uniqueId": "{number}",
        },
    ),
    "gcp:serviceaccount/iAMMember:IAMMember": _grant("{serviceAccountId}"),
    "gcp:projects/iAMMember:IAMMember": _grant("{project}"),
    "gcp:projects/service:Service": Kind("{project}/{service}", shared=True),
    "gcp:artifactregistry/repository:Repository": Kind(
        _IN_LOCATION + "repositories/{repositoryId}",
        frozenset(("format", "mode", "kmsKeyName")),
        {"name": "{repositoryId}", "registryUri": "{location}-docker.pkg.dev/{project}/{repositoryId}"},
    ),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _grant(_IN_LOCATION + "repositories/{repository}"),
    "gcp:kms/keyRing:KeyRing": Kind(_IN_LOCATION + "keyRings/{name}"),
    "gcp:kms/cryptoKey:CryptoKey": Kind(
        "{keyRing}/cryptoKeys/{name}", frozenset(("purpose", "destroyScheduledDuration", "importOnly"))
    ),
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember": _grant("{cryptoKeyId}"),
    "gcp:secretmanager/secret:Secret": Kind(
        "projects/{project}/secrets/{secretId}",
        frozenset(("replication",)),
        {"name": "projects/{number}/secrets/{secretId}"},
    ),
    "gcp:secretmanager/secretVersion:SecretVersion": Kind(
        "{secret}/versions/1", frozenset(("secretData",)), {"name": "{id}", "version": "1"}
    ),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _grant("projects/{project}/secrets/{secretId}"),
    "gcp:billing/budget:Budget": Kind(
        "billingAccounts/{billingAccount}/budgets/{urnHash}", outputs={"name": "{urnHash}"}
    ),
}


def of(token: str, resource: ResourceType) -> Kind:
    """The type's row in the table, or for other types a row guessed from the inputs they have."""
    if token in _KINDS:
        return _KINDS[token]
    if token.endswith(("Member", "Binding", "Policy")) and "IAM" in token.upper():
        return Kind("grants/{urnHash}", frozenset(resource.inputs), shared=True)
    place = next((key for key in ("zone", "region", "location") if key in resource.inputs), None)
    scope = f"locations/{{{place}}}" if place else "global"
    last = "{name}" if "name" in resource.inputs else "{urnHash}"
    return Kind(f"projects/{{project}}/{scope}/{token.split(':')[1].rpartition('/')[2]}s/{last}")


def replaces(kind: Kind, key: str, old: Any, new: Any) -> bool:
    """Whether a changed key replaces the resource. old and new: its values, None where it is not set."""
    if key in kind.widens:
        return not _holds(new, old)
    if key in kind.replaces or f"{{{key}}}" in kind.id:
        return True
    return key in _ALWAYS_REPLACED and key not in kind.updates


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether one range of addresses holds all of another; what is no range, or not known yet, replaces nothing."""
    try:
        ranges = [ipaddress.IPv4Network(each, strict=False) for each in (wide, narrow)]
    except ValueError:
        return True
    return ranges[1].subnet_of(ranges[0])
