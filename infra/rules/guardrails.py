"""Rules for every resource that a program declares: its bill has an owner, nobody gets in, data stays, Google takes it.

Owns: one table of rules, each a pure function of a resource as declared, and the labels that are added where missing.
Refuses to own values and their forms (infra/rules/google_checks.py) and how the engine's SDK is hooked
(infra/rules/enforce.py).

Inputs are as on the wire (camelCase). What is not known before `up` is an object of the SDK; a rule passes on it.
A rule that is broken on purpose is named in the stack: `slipway:allow: [no-open-ingress]`.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from infra.rules import google_checks, pool_checks


@dataclass(frozen=True)
class Declared:
    """A resource as the program declares it."""

    token: str
    name: str
    inputs: Mapping[str, Any]
    protect: bool = False
    retain_on_delete: bool = False


@dataclass(frozen=True)
class Rule:
    """problem: None, or one sentence with what to write instead. tokens: patterns of the types that it applies to."""

    name: str
    tokens: tuple[str, ...]
    problem: Callable[[Declared], str | None]


# The types that cost money, each with the keys that lead to its labels. Types that take no labels are not here
# (a NAT gateway, a firewall rule), and a node pool's `labels` are Kubernetes', not the bill's.
BILLABLE: dict[str, tuple[str, ...]] = {
    "gcp:artifactregistry/repository:Repository": ("labels",),
    "gcp:compute/address:Address": ("labels",),
    "gcp:compute/disk:Disk": ("labels",),
    "gcp:compute/globalAddress:GlobalAddress": ("labels",),
    "gcp:compute/image:Image": ("labels",),
    "gcp:compute/instance:Instance": ("labels",),
    "gcp:compute/instanceTemplate:InstanceTemplate": ("labels",),
    "gcp:container/cluster:Cluster": ("resourceLabels",),
    "gcp:container/nodePool:NodePool": ("nodeConfig", "resourceLabels"),
    "gcp:filestore/instance:Instance": ("labels",),
    "gcp:kms/cryptoKey:CryptoKey": ("labels",),
    "gcp:pubsub/topic:Topic": ("labels",),
    "gcp:secretmanager/secret:Secret": ("labels",),
    "gcp:storage/bucket:Bucket": ("labels",),
    "gcp:tpu/v2Vm:V2Vm": ("labels",),
    "gcp:vertex/aiPersistentResource:AiPersistentResource": ("labels",),
    "gcp:vertex/aiTensorboard:AiTensorboard": ("labels",),
    "slipway:tpu:QueuedResource": ("labels",),
    "slipway:vertex:Job": ("labels",),
}


def labelled(declared: Declared, labels: Mapping[str, str]) -> Mapping[str, Any]:
    """The inputs with the labels of what is billed, where they are missing; a resource's own win."""
    path = BILLABLE.get(declared.token)
    return _with_labels(declared.inputs, path, labels) if path else declared.inputs


def _with_labels(inputs: Mapping[str, Any], path: Sequence[str], labels: Mapping[str, str]) -> Mapping[str, Any]:
    key, *rest = path
    value = inputs.get(key)
    if value is not None and not isinstance(value, Mapping):
        return inputs  # not known yet
    inside = cast(Mapping[str, Any], value or {})
    return {**inputs, key: _with_labels(inside, rest, labels) if rest else {**labels, **inside}}


def problems(declared: Declared, allowed: Sequence[str]) -> list[str]:
    """Every broken rule of one resource, one sentence each."""
    return [
        f"{declared.name} ({declared.token}): {problem}. If it is meant, allow it: slipway:allow: [{rule.name}]"
        for rule in RULES
        if rule.name not in allowed and any(fnmatchcase(declared.token, token) for token in rule.tokens)
        if (problem := rule.problem(declared))
    ]


def unknown_rules(allowed: Sequence[str]) -> str | None:
    """One sentence where `allow` names a rule that there is not."""
    names = [rule.name for rule in RULES]
    for name in allowed:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [", ".join(names)]
            return f"allow names {name!r}, which is no rule; nearest: {near[0]}"
    return None


# --- reading inputs of which some may not be known ---


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [item for item in cast(list[object], value) if isinstance(item, str)] if isinstance(value, list) else []


def _objects(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list, or the one object."""
    items = cast(list[object], value) if isinstance(value, list) else [value]
    return [cast(Mapping[str, Any], item) for item in items if isinstance(item, Mapping)]


def _object(value: object) -> Mapping[str, Any]:
    nothing: Mapping[str, Any] = {}
    return next(iter(_objects(value)), nothing)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _everywhere(value: object) -> Iterator[tuple[str, object]]:
    """Every key with its value at any depth."""
    if isinstance(value, Mapping):
        for key, item in cast(Mapping[str, object], value).items():
            yield key, item
            yield from _everywhere(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from _everywhere(item)


# --- who gets in ---


def _is_everywhere(cidr: str) -> bool:
    try:
        return ipaddress.ip_network(cidr, strict=False).prefixlen == 0
    except ValueError:
        return False


def _open_ingress(declared: Declared) -> str | None:
    inputs = declared.inputs
    if inputs.get("direction", "INGRESS") != "INGRESS" or not inputs.get("allows"):
        return None
    if not any(inputs.get(key) for key in ("sourceRanges", "sourceTags", "sourceServiceAccounts")):
        return "it names no source, which Google reads as 0.0.0.0/0; give sourceServiceAccounts or sourceRanges"
    open_range = next((cidr for cidr in _texts(inputs.get("sourceRanges")) if _is_everywhere(cidr)), None)
    return f"it lets {open_range} in, the whole internet; give the range that needs to get in" if open_range else None


def _open_control_plane(declared: Declared) -> str | None:
    authorized = _object(declared.inputs.get("masterAuthorizedNetworksConfig"))
    blocks = [_text(block.get("cidrBlock")) for block in _objects(authorized.get("cidrBlocks"))]
    open_range = next((cidr for cidr in blocks if _is_everywhere(cidr)), None)
    return f"its control plane lets {open_range} in; give the range that needs to get in" if open_range else None


def _external_ip(declared: Declared) -> str | None:
    for key, value in _everywhere(declared.inputs):
        if key in ("accessConfigs", "ipv6AccessConfigs") and value:
            return f"{key} gives it an external IP; leave it out: SSH goes through IAP, Google's services are near"
        if key == "enableExternalIps" and value is True:
            return f"{key} is true; set it to false: SSH goes through IAP, Google's services are near"
    return None


def _external_address(declared: Declared) -> str | None:
    if declared.inputs.get("addressType", "EXTERNAL") != "EXTERNAL":
        return None
    return "it is an external IP; set addressType to INTERNAL, or leave it out: NAT takes its own"


def _public_nodes(declared: Declared) -> str | None:
    private = _object(declared.inputs.get("privateClusterConfig"))
    known = "privateClusterConfig" not in declared.inputs or private
    if not known or private.get("enablePrivateNodes"):
        return None
    return "its nodes get external IPs; set privateClusterConfig.enablePrivateNodes to true"


def _public_member(declared: Declared) -> str | None:
    role, members = declared.inputs.get("role"), [_text(declared.inputs.get("member"))]
    for member in members + _texts(declared.inputs.get("members")):
        if member in ("allUsers", "allAuthenticatedUsers"):
            return f"it grants {role} to {member}, the whole world; name who needs it"
    return None


# --- as whom hosts act ---

_DEFAULT_ACCOUNTS = ("-compute@developer.gserviceaccount.com", "@appspot.gserviceaccount.com")


def _default_account(declared: Declared) -> str | None:
    own = "give the foundation's, names.of(...).account_email"
    for key, value in _everywhere(declared.inputs):
        for text in (_text(value), *_texts(value)):
            if key in ("email", "serviceAccount", "member", "members") and text.endswith(_DEFAULT_ACCOUNTS):
                return f"it uses the default service account {text!r}, an editor of the whole project; {own}"
            if key in ("email", "serviceAccount") and text == "default":
                return f"it uses the default service account, an editor of the whole project; {own}"
    holders = {_VM: declared.inputs, _REQUEST: declared.inputs, _JOB: declared.inputs, _POOL: _node_config(declared)}
    holder = holders.get(declared.token)
    if holder is not None and not holder.get("serviceAccount"):
        return f"it names no service account, so it gets the default one, an editor of the whole project; {own}"
    return None


# Logs and metrics are a project's and no smaller thing's, and who may only write them reads nothing.
_PROJECT_WRITERS = ("roles/logging.logWriter", "roles/monitoring.metricWriter")


def _project_role(declared: Declared) -> str | None:
    if declared.token == _PROJECT_MEMBER and declared.inputs.get("role") in _PROJECT_WRITERS:
        return None
    role = _text(declared.inputs.get("role")) or "its roles"
    return f"it grants {role} on everything in the project; grant a role on the bucket, repository or secret instead"


# --- what stays ---


def _bucket_protected(declared: Declared) -> str | None:
    inputs = declared.inputs
    missing = {
        "the option protect": declared.protect,
        "the option retain_on_delete": declared.retain_on_delete,
        "uniformBucketLevelAccess: true": inputs.get("uniformBucketLevelAccess") is True,
        "publicAccessPrevention: enforced": inputs.get("publicAccessPrevention") == "enforced",
        "forceDestroy: false": not inputs.get("forceDestroy"),
    }
    lacks = [what for what, has in missing.items() if not has]
    return f"a bucket holds what cannot be made again, and this one lacks {', '.join(lacks)}; add it" if lacks else None


# --- what Google's provider leaves out ---


def _labels(declared: Declared) -> str | None:
    value: object = declared.inputs
    for key in BILLABLE[declared.token]:
        value = _object(value).get(key)
    return google_checks.label_problem(_object(value))


def _first(problem: Callable[[str], str | None], texts: Iterable[object]) -> str | None:
    """The first problem that one of these texts has. A value that is no text, or not known yet, has none."""
    return next((found for text in map(_text, texts) if text and (found := problem(text))), None)


def _bucket_name(declared: Declared) -> str | None:
    return _first(google_checks.bucket_name_problem, [declared.inputs.get("name")])


def _location(declared: Declared) -> str | None:
    if declared.token == _POOL and not declared.inputs.get("location"):
        return "it has no location, and the provider would look for its cluster in the default zone; give the cluster's"
    for key in ("location", "region", "zone"):
        place = _text(declared.inputs.get(key))
        if place and (problem := google_checks.location_problem(key, place)):
            return problem
    return None


def _mtu(declared: Declared) -> str | None:
    mtu = _number(declared.inputs.get("mtu"))
    return google_checks.mtu_problem(mtu) if mtu is not None else None


def _node_config(declared: Declared) -> Mapping[str, Any]:
    return _object(declared.inputs.get("nodeConfig"))


def _machine_type(declared: Declared) -> str | None:
    holders = (declared.inputs, _node_config(declared))
    return _first(google_checks.machine_type_problem, [holder.get("machineType") for holder in holders])


def _accelerator_type(declared: Declared) -> str | None:
    types = (value for key, value in _everywhere(declared.inputs) if key == "acceleratorType")
    return _first(google_checks.accelerator_type_problem, types)


def _guest_accelerator(declared: Declared) -> str | None:
    lists = (holder.get("guestAccelerators") for holder in (declared.inputs, _node_config(declared)))
    types = [accelerator.get("type") for accelerators in lists for accelerator in _objects(accelerators)]
    return _first(google_checks.guest_accelerator_problem, types)


def _topology(declared: Declared) -> str | None:
    placement = _object(declared.inputs.get("placementPolicy"))
    if _text(placement.get("type")) not in ("", "COMPACT"):
        return f"placementPolicy.type is {placement['type']!r}; give COMPACT, which is all that there is"
    machine = _text(_node_config(declared).get("machineType")) or None
    workload = _object(declared.inputs.get("workloadPolicy"))
    topology = _text(placement.get("tpuTopology")) or _text(workload.get("acceleratorTopology"))
    hosts = _number(declared.inputs.get("nodeCount"))
    return google_checks.topology_problem(topology, machine, hosts) if topology else None


def _workload_policy(declared: Declared) -> str | None:
    workload = _object(declared.inputs.get("workloadPolicy"))
    if workload and declared.inputs.get("groupPlacementPolicy"):
        return "it has workloadPolicy and groupPlacementPolicy; give one of them"
    if workload.get("type") == "HIGH_AVAILABILITY" and workload.get("acceleratorTopology"):
        return "workloadPolicy is HIGH_AVAILABILITY with a topology, which is for serving; give HIGH_THROUGHPUT"
    return None


def _multi_networking(declared: Declared) -> str | None:
    """GKE refuses it minutes into an `up`."""
    datapath = declared.inputs.get("datapathProvider")
    known = datapath is None or isinstance(datapath, str)
    if declared.inputs.get("enableMultiNetworking") is True and known and datapath != "ADVANCED_DATAPATH":
        return (
            "enableMultiNetworking is true without datapathProvider ADVANCED_DATAPATH, which alone knows it; give that"
        )
    return None


_BUCKET = "gcp:storage/bucket:Bucket"
_CLUSTER = "gcp:container/cluster:Cluster"
_POOL = "gcp:container/nodePool:NodePool"
_ANY = ("gcp:*", "slipway:*")
_VM = "gcp:tpu/v2Vm:V2Vm"
_REQUEST = "slipway:tpu:QueuedResource"
_JOB = "slipway:vertex:Job"
_PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
_GRANTS = ("gcp:*IAM*", "gcp:*Iam*", "gcp:*iAM*", "gcp:*iam*")
_PROJECT_GRANTS = ("gcp:projects/iAM*:*", "gcp:folder/iAM*:*", "gcp:organizations/iAM*:*")

RULES: tuple[Rule, ...] = (
    Rule("no-open-ingress", ("gcp:compute/firewall:Firewall",), _open_ingress),
    Rule("no-open-control-plane", (_CLUSTER,), _open_control_plane),
    Rule("no-external-ip", _ANY, _external_ip),
    Rule(
        "no-external-ip", ("gcp:compute/address:Address", "gcp:compute/globalAddress:GlobalAddress"), _external_address
    ),
    Rule("no-external-ip", (_CLUSTER,), _public_nodes),
    Rule("no-public-member", _GRANTS, _public_member),
    Rule("no-default-account", _ANY, _default_account),
    Rule("no-project-role", _PROJECT_GRANTS, _project_role),
    Rule("bucket-protected", (_BUCKET,), _bucket_protected),
    Rule("labels", tuple(BILLABLE), _labels),
    Rule("bucket-name", (_BUCKET,), _bucket_name),
    Rule("location", ("gcp:*",), _location),
    Rule("mtu", ("gcp:compute/network:Network",), _mtu),
    Rule("machine-type", ("gcp:compute/*", _POOL), _machine_type),
    Rule("accelerator-type", ("gcp:tpu/*", _REQUEST), _accelerator_type),
    Rule("guest-accelerator", ("gcp:compute/instance*", _POOL), _guest_accelerator),
    Rule("topology", (_POOL, "gcp:compute/resourcePolicy:ResourcePolicy"), _topology),
    Rule("node-pool", (_POOL,), lambda declared: pool_checks.pool_problem(declared.inputs)),
    Rule("multi-networking", (_CLUSTER,), _multi_networking),
    Rule("workload-policy", ("gcp:compute/resourcePolicy:ResourcePolicy",), _workload_policy),
)
