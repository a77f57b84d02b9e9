"""A stand-in's state of a foundation as Google's own plugin 10.2 would have written it: without the stand-in's mark.

The plugin cannot be had here. What it writes beside the properties the stand-in writes too, from the plugin's source
(infra/standins/gcp/state_form.py). Refuses to own that.
"""

from __future__ import annotations

import json
from typing import Any

from infra.standins.gcp.store import MARK

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
    delta = kept["outputs"]["__pulumi_raw_state_delta"]["obj"]
    assert delta.pop("ignored") == [MARK]
    outputs = {key: value for key, value in kept["outputs"].items() if key != MARK}
    return kept | {"outputs": outputs}
