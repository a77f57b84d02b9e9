"""A stand-in's state of a foundation as Google's own plugin 10.2 would have written it.

It cannot be had here, so what it adds is a table from its source: the defaults of each type that are not false, zero or
empty (`Default:` in terraform-provider-google-beta, which the bridge fills in and names in `__defaults`), an empty list
of such names in every other object (pulumi-terraform-bridge, pkg/tfbridge/schema.go), `__meta` and the label that the
provider adds among the outputs.
"""

from __future__ import annotations

import json
from typing import Any

from infra.standins.gcp import schema
from infra.standins.gcp.schema import ListOf, ObjectOf, Type
from infra.standins.gcp.store import MARK

FILLED_IN: dict[str, dict[str, Any]] = {
    "gcp:compute/network:Network": {"networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL"},
    "gcp:compute/firewall:Firewall": {"priority": 1000},
    "gcp:compute/routerNat:RouterNat": {
        "icmpIdleTimeoutSec": 30,
        "tcpEstablishedIdleTimeoutSec": 1200,
        "tcpTimeWaitTimeoutSec": 120,
        "tcpTransitoryIdleTimeoutSec": 30,
        "type": "PUBLIC",
        "udpIdleTimeoutSec": 30,
    },
    "gcp:kms/cryptoKey:CryptoKey": {"purpose": "ENCRYPT_DECRYPT"},
    "gcp:artifactregistry/repository:Repository": {"mode": "STANDARD_REPOSITORY"},
}
_LABEL = {"goog-pulumi-provisioned": "true"}
_WRITTEN_ANEW = ("created", "modified", "sourcePosition", "stackTrace")
_PROVIDER_ID = "49fb51fa-66c4-49c6-aa5c-be7c1419c8"  # and two digits, one number per provider


def as_google_writes(exported: dict[str, Any]) -> dict[str, Any]:
    """exported: of `pulumi stack export`."""
    resources: list[dict[str, Any]] = exported["deployment"]["resources"]
    providers = sorted(each["urn"] for each in resources if each["type"] == "pulumi:providers:gcp")
    ids = {each["id"]: each["urn"] for each in resources if each["urn"] in providers}
    others = [each for each in resources if each["type"] != "pulumi:providers:slipway"]  # it has the stack's keys
    text = json.dumps([_resource(each) for each in others])
    for random_id, urn in ids.items():
        text = text.replace(random_id, f"{_PROVIDER_ID}{providers.index(urn):02}")
    deployment = exported["deployment"] | {"manifest": {}, "metadata": {}, "resources": _ordered(json.loads(text))}
    return exported | {"deployment": deployment}


def text(state: dict[str, Any]) -> str:
    """A resource a line, so that a change of one is a line of the diff."""
    lines = ",\n".join(json.dumps(each, sort_keys=True) for each in state["deployment"]["resources"])
    around = json.dumps(state | {"deployment": state["deployment"] | {"resources": []}})
    return around.replace('"resources": []', f'"resources": [\n{lines}\n]') + "\n"


def _ordered(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By URN, each after what it refers to, as an import needs them: in a state they stand as they were made."""
    left = {each["urn"]: each for each in resources}
    ordered: list[dict[str, Any]] = []
    while left:
        ready = next(
            urn
            for urn, each in sorted(left.items())
            if not left.keys() & {each.get("parent"), each.get("provider", "").rpartition("::")[0]}
            and not left.keys() & set(each.get("dependencies", ()))
        )
        ordered.append(left.pop(ready))
    return ordered


def _resource(resource: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in resource.items() if key not in _WRITTEN_ANEW}
    if "dependencies" in kept:
        kept["dependencies"] = sorted(kept["dependencies"])
    if "propertyDependencies" in kept:
        kept["propertyDependencies"] = {key: sorted(urns) for key, urns in kept["propertyDependencies"].items()}
    if not kept["type"].startswith("gcp:"):
        return kept
    kind = schema.resource_type(kept["type"])
    assert kind is not None
    given = {key: value for key, value in kept["inputs"].items() if key != "__defaults"}
    filled_in = {key: value for key, value in FILLED_IN.get(kept["type"], {}).items() if key not in given}
    inputs = {key: _with_empty_lists(value, kind.inputs[key].type) for key, value in given.items()}
    outputs = {key: value for key, value in kept["outputs"].items() if key != MARK}
    for key in ("effectiveLabels", "pulumiLabels"):
        if key in outputs:
            outputs[key] = outputs[key] | _LABEL
    if "deletionPolicy" in outputs:
        outputs["deletionPolicy"] = "DELETE"
    return kept | {
        "inputs": inputs | filled_in | {"__defaults": sorted(filled_in)},
        "outputs": outputs | filled_in | {"__meta": '{"schema_version":"0"}'},
    }


def _with_empty_lists(value: Any, kind: Type) -> Any:
    match kind:
        case ListOf(item):
            return [_with_empty_lists(each, item) for each in value]
        case ObjectOf():
            fields = schema.object_fields(kind)
            assert fields is not None
            inner = {key: _with_empty_lists(each, fields[key].type) for key, each in value.items()}
            return inner | {"__defaults": []}
        case _:
            return value
