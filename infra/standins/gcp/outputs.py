"""The outputs of a gcp resource: what the program gave, and what the cloud fills in.

Owns how a kind's templates become values, at preview unknown ones, and what of them an update keeps. Refuses to own the
templates (kinds.py) and what a type's inputs are (schema.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, cast

from infra.providers.input_types import UNKNOWN
from infra.providers.resource import ResourceError
from infra.standins.gcp import defaults
from infra.standins.gcp.kinds import Kind, Template
from infra.standins.gcp.schema import ListOf, MapOf, ObjectOf, ResourceType, Scalar, Type

# What the plugin says of each resource where nothing else is said, and a label that it puts on all that have some.
_ALWAYS = {"deletionPolicy": "DELETE"}
_LABEL = {"goog-pulumi-provisioned": "true"}


def planned(kind: Kind, resource: ResourceType, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs at preview of a create: the inputs, and UNKNOWN for what the cloud always fills in."""
    unknown: dict[str, Any] = {key: UNKNOWN for key, output in resource.outputs.items() if output.required}
    given = _as_outputs(resource, inputs)
    nested = {key: _unknown(template) for key, template in kind.outputs.items() if isinstance(template, Mapping)}
    return unknown | _merged({key: nested[key] for key in nested if key in given}, given)


def updated(
    kind: Kind, resource: ResourceType, outputs: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Outputs after an update: the inputs, and what the cloud has filled in before."""
    kept: dict[str, Any] = {}
    for key, output in resource.outputs.items():
        template = kind.outputs.get(key)
        if outputs.get(key) is not None and isinstance(template, Mapping) and key in inputs:
            kept[key] = _part(outputs[key], template)
        elif outputs.get(key) is not None and (output.required or key not in resource.inputs):
            kept[key] = outputs[key]
    given = {key: value for key, value in _as_outputs(resource, inputs).items() if key not in kind.stored}
    return _merged(kept | {key: outputs[key] for key in kind.stored if key in outputs}, given, kind.outputs)


def created(
    kind: Kind, resource: ResourceType, urn: str, inputs: Mapping[str, Any], places: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Id and outputs of what a create makes. places: project, region and zone of the provider."""
    values = _as_outputs(resource, inputs)
    words = _words(kind, urn, values, places)
    words["id"] = identifier = _filled(kind.id, words)
    filled: dict[str, Any] = {}
    for key, output in resource.outputs.items():
        if key in kind.outputs:
            filled[key] = _typed(_filled(kind.outputs[key], words), output.type)
        elif output.required and key not in values:
            # what the cloud would answer is not known here: the place of it, or a value of the right type
            named = key in (*places, "location", "name") and key in words
            filled[key] = words[key] if named else _ALWAYS.get(key, _blank(output.type))
    return identifier, _merged(filled, values, kind.outputs) | _stored(kind, words)


def as_inputs(kind: Kind, known: Mapping[str, Any], thing: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Inputs that a read finds, as they were given where the cloud only spells them in another way."""
    found = {key: thing[key] for key in keys if thing.get(key) is not None}
    for key in kind.stored.keys() & found.keys() & known.keys():
        if _last(found[key]) == _last(known[key]):
            found[key] = known[key]
    return found


def _last(path: Any) -> str:
    return str(path).rpartition("/")[2].upper()


def _stored(kind: Kind, words: Mapping[str, str]) -> dict[str, Any]:
    return {key: _filled(template, words) for key, template in kind.stored.items()}


def _words(kind: Kind, urn: str, values: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, str]:
    """What templates may say."""
    digest = hashlib.sha256(urn.encode()).hexdigest()
    words = {
        **{key: value for key, value in places.items() if value},
        **{key: str(value) for key, value in values.items() if isinstance(value, str | int | float)},
        "number": str(int(digest[:15], 16)),
        "urnHash": digest[:16],
    }
    words.setdefault("location", words.get("zone") or words.get("region", ""))
    words["LOCATION"] = words["location"].upper()
    # Both spellings are given, and one is meant.
    words |= {key: words[key].removeprefix("b/").rpartition("/")[2] for key in kind.stored if key in words}
    if "namePrefix" in words:
        words.setdefault("name", words["namePrefix"] + digest[:7])
    # a domain-scoped project stands the other way round in an account's address
    words["mailProject"] = ".".join(reversed(words.get("project", "").split(":")))
    return {**words, **kind.words(values, words)}


def _as_outputs(resource: ResourceType, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as outputs; labels come back under two more names, with the plugin's own among them."""
    values = {key: defaults.without(value) for key, value in inputs.items() if not key.startswith("__")}
    labels = values.get("labels")
    if labels is None:
        return values
    copied = {**cast(Mapping[str, Any], labels), **_LABEL} if isinstance(labels, Mapping) else labels  # not known yet
    return values | {key: copied for key in ("effectiveLabels", "pulumiLabels") if key in resource.outputs}


def _merged(
    filled: Mapping[str, Any], given: Mapping[str, Any], nested: Mapping[str, Template] | None = None
) -> dict[str, Any]:
    """What is given over what is filled in; of objects that both have, and of which `nested` tells, part by part."""
    result = {**filled, **given}
    for key in filled.keys() & given.keys():
        before, after = filled[key], given[key]
        if isinstance(before, dict) and isinstance(after, dict) and (nested is None or key in nested):
            result[key] = _merged(cast(dict[str, Any], before), cast(dict[str, Any], after))
    return result


def _part(value: Any, template: Mapping[str, Template]) -> Any:
    """What a template has filled in of a value."""
    if not isinstance(value, dict):
        return value
    values = cast(dict[str, Any], value)
    return {
        key: _part(values[key], inner) if isinstance(inner, Mapping) else values[key]
        for key, inner in template.items()
        if key in values
    }


def _unknown(template: Template) -> Any:
    return {key: _unknown(each) for key, each in template.items()} if isinstance(template, Mapping) else UNKNOWN


def _filled(template: Template, words: Mapping[str, str]) -> Any:
    match template:
        case str():
            try:
                return template.format_map(words)
            except KeyError as missing:
                raise ResourceError(f"{missing} is not set; set it on the resource or on the provider") from None
        case tuple():
            return [_filled(each, {**words, "zone": zone}) for zone in words["zones"].split(",") for each in template]
        case _:
            return {key: _filled(each, words) for key, each in template.items()}


def _typed(value: Any, kind: Type) -> Any:
    return int(value) if kind == Scalar("int") else value


def _blank(kind: Type) -> Any:
    match kind:
        case Scalar(name):
            return {"str": "", "int": 0, "float": 0, "bool": False}[name]
        case ListOf():
            return []
        case MapOf() | ObjectOf():
            return {}
        case _:
            return None
