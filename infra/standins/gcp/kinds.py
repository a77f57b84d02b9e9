"""What neither the SDK's source nor the provider's tables say of a resource type: its id, and what the cloud fills in.

Owns: one row per type whose id or outputs other resources are built from, which follows the "Import" and "Attributes"
parts of its page in the provider's documentation. Every other type gets a made-up id, and a guess of what replaces it.
Refuses to own: inputs and their types (schema.py), what replaces a type that the tables have (provider_fields.py), how
outputs are made of a row (outputs.py), and state (store.py).
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


# Where a thing lies and what it is called: the guess is that it cannot be changed.
_PLACE_AND_NAME = frozenset(("name", "project", "location", "region", "zone"))


@dataclass(frozen=True)
class Kind:
    """id and outputs are templates over inputs, provider defaults, `{id}` and `words`.

    words: of inputs and of the words there are, more of them. stored: outputs that are spelled otherwise than given.
    widens: ranges of addresses, whose change replaces unless the new range holds all of the old. shared: a grant, which
    two resources may make.
    """

    id: str
    outputs: Mapping[str, Template] = field(default_factory=dict[str, Template])
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
    widens: frozenset[str] = frozenset()
    shared: bool = False
    words: Callable[[Mapping[str, Any], Mapping[str, str]], Mapping[str, str]] = _no_words


def _compute(path: str, widens: tuple[str, ...] = (), **outputs: str) -> Kind:
    made = {"selfLink": "https://www.googleapis.com/compute/v1/{id}", **outputs}
    return Kind("projects/{project}/" + path, made, widens=frozenset(widens))


def _grant(of: str, **stored: str) -> Kind:
    return Kind(of + "/{role}/{member}", shared=True, stored=stored)


_IN_LOCATION = "projects/{project}/locations/{location}/"
_GROUPS = "https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/"
_GROUP = "gke-{clusterPart}-{poolPart}-{groupHash}-grp"
_KINDS: dict[str, Kind] = {
    "gcp:compute/network:Network": _compute("global/networks/{name}", networkId="{number}", numericId="{number}"),
    "gcp:compute/subnetwork:Subnetwork": _compute("regions/{region}/subnetworks/{name}", widens=("ipCidrRange",)),
    "gcp:compute/firewall:Firewall": _compute("global/firewalls/{name}"),
    "gcp:compute/router:Router": _compute("regions/{region}/routers/{name}"),
    "gcp:compute/routerNat:RouterNat": Kind("{project}/{region}/{router}/{name}"),
    "gcp:compute/address:Address": _compute("regions/{region}/addresses/{name}"),
    "gcp:compute/globalAddress:GlobalAddress": _compute("global/addresses/{name}"),
    "gcp:compute/instance:Instance": _compute("zones/{zone}/instances/{name}", instanceId="{number}"),
    "gcp:compute/resourcePolicy:ResourcePolicy": _compute("regions/{region}/resourcePolicies/{name}"),
    gke.CLUSTER: Kind(
        _IN_LOCATION + "clusters/{name}",
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
    "gcp:tpu/v2Vm:V2Vm": Kind("projects/{project}/locations/{zone}/nodes/{name}"),
    "gcp:storage/bucket:Bucket": Kind(
        "{name}",
        {"url": "gs://{name}", "selfLink": "https://www.googleapis.com/storage/v1/b/{name}"},
        stored={"location": "{LOCATION}"},
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _grant("b/{bucket}", bucket="b/{bucket}"),
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
        {"name": "{repositoryId}", "registryUri": "{location}-docker.pkg.dev/{project}/{repositoryId}"},
    ),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _grant(
        _IN_LOCATION + "repositories/{repository}", repository=_IN_LOCATION + "repositories/{repository}"
    ),
    "gcp:kms/keyRing:KeyRing": Kind(_IN_LOCATION + "keyRings/{name}"),
    "gcp:kms/cryptoKey:CryptoKey": Kind("{keyRing}/cryptoKeys/{name}"),
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember": _grant("{cryptoKeyId}"),
    "gcp:secretmanager/secret:Secret": Kind(
        "projects/{project}/secrets/{secretId}",
        {"name": "projects/{number}/secrets/{secretId}"},
    ),
    "gcp:secretmanager/secretVersion:SecretVersion": Kind("{secret}/versions/1", {"name": "{id}", "version": "1"}),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _grant(
        "projects/{project}/secrets/{secretId}", secretId="projects/{project}/secrets/{secretId}"
    ),
    "gcp:billing/budget:Budget": Kind(
        "billingAccounts/{billingAccount}/budgets/{urnHash}", outputs={"name": "{urnHash}"}
    ),
}


def of(token: str, resource: ResourceType) -> Kind:
    """The type's row in the table, or for other types a row guessed from the inputs they have."""
    if token in _KINDS:
        return _KINDS[token]
    if token.endswith(("Member", "Binding", "Policy")) and "IAM" in token.upper():
        return Kind("grants/{urnHash}", shared=True)
    place = next((key for key in ("zone", "region", "location") if key in resource.inputs), None)
    scope = f"locations/{{{place}}}" if place else "global"
    last = "{name}" if "name" in resource.inputs else "{urnHash}"
    return Kind(f"projects/{{project}}/{scope}/{token.split(':')[1].rpartition('/')[2]}s/{last}")


def guess_replaces(kind: Kind, key: str) -> bool:
    """Whether a changed key may replace a resource of a type that the provider's tables do not have."""
    return kind.shared or f"{{{key}}}" in kind.id or key in _PLACE_AND_NAME


def narrows(old: Any, new: Any) -> bool:
    """Whether a range of addresses no longer holds all of the old; what is no range, or not known yet, does not."""
    try:
        before, after = (ipaddress.IPv4Network(each, strict=False) for each in (old, new))
    except ValueError:
        return False
    return not before.subnet_of(after)
