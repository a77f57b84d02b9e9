"""Outputs as Google's plugin writes them into a state, so that it finds its own there where it comes later.

Owns what stands beside the properties: `id`, `__meta` with limits and version, `__pulumi_raw_state_delta`, which tells
how to make the provider's own state of the outputs (pulumi-terraform-bridge, pkg/tfbridge/rawstate.go), and null for
what nobody has said. Refuses to own the values (outputs.py). Never compared with a state of the plugin's own; what a
provider has as null or as empty is a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from infra.standins.gcp import provider_fields, schema
from infra.standins.gcp.provider_fields import ProviderFields
from infra.standins.gcp.schema import Anything, Field, ListOf, MapOf, ObjectOf, ResourceType, Scalar, Type

_DELTA, _META = "__pulumi_raw_state_delta", "__meta"
_LIMITS = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"  # the name that Terraform's SDK has for them
_DEEPEST = 90  # protobuf reads a hundred, of which some are around it
_NS_PER_MINUTE = 60_000_000_000
# To the provider the labels with its own among them, whatever the type.
_RENAMED = {"pulumiLabels": "terraform_labels"}


def written(token: str, resource: ResourceType, identifier: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """properties: outputs of a resource, and keys of the stand-in's own, which Google's plugin is told to pass over."""
    fields = provider_fields.of(token)
    types = {key: _type(resource, key, output) for key, output in resource.outputs.items()}
    values = {"id": identifier, **dict.fromkeys(types), **properties}
    values = {key: _with_nothing(types.get(key, Anything()), value) for key, value in values.items()}
    delta = _of_object({"id": Scalar("str"), **types}, fields, values)
    # The plugin does without one in a state that has none, and where inline node pools are said in full it is too deep.
    return values | ({_DELTA: delta} if _messages(delta) <= _DEEPEST else {}) | _meta(fields)


def _messages(value: Any) -> int:
    """How many messages of the engine's protocol are in each other for it."""
    match value:
        case dict():
            return 3 + max(map(_messages, cast(dict[str, Any], value).values()), default=0)
        case list():
            return 2 + max(map(_messages, cast(list[Any], value)), default=0)
        case _:
            return 0


def without(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties alone."""
    return {key: value for key, value in properties.items() if key not in (_DELTA, _META, "id")}


def _type(resource: ResourceType, key: str, output: Field) -> Type:
    """Of what can be an input the SDK's source says more."""
    return resource.inputs[key].type if key in resource.inputs else output.type


def _meta(fields: ProviderFields | None) -> dict[str, str]:
    if fields is None or not (fields.minutes or fields.version):
        return {}
    limits = {each: minutes * _NS_PER_MINUTE for each, minutes in sorted(fields.minutes.items())}
    meta = ({_LIMITS: limits} if limits else {}) | {"schema_version": str(fields.version)}
    return {_META: json.dumps(meta, separators=(",", ":"))}


def _with_nothing(kind: Type, value: Any) -> Any:
    """The value with an empty list for each list of objects that is not there: those the provider always has."""
    match kind:
        case ListOf(ObjectOf() as item):
            return [_with_nothing(item, each) for each in cast(list[Any], value or [])]
        case ObjectOf() if isinstance(value, dict):
            inner = schema.object_fields(kind) or {}
            values: dict[str, Any] = {**dict.fromkeys(inner), **cast(dict[str, Any], value)}
            return {key: _with_nothing(inner[key].type, each) if key in inner else each for key, each in values.items()}
        case ListOf(Anything()):
            return value or []
        case _:
            return value


def _of_object(types: Mapping[str, Type], fields: ProviderFields | None, values: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _of_value(kind, fields, values.get(key)) for key, kind in types.items()}
    spelled = {**_RENAMED, **(fields.provider_names if fields else {})}
    renamed = {key: spelled[key] for key in types if spelled.get(key, _snake(key)) != _snake(key)}
    ignored = sorted(key for key in values if key not in types)
    found = {"ps": {key: part for key, part in parts.items() if part}, "renamed": renamed, "ignored": ignored}
    return {"obj": {key: part for key, part in found.items() if part}}


def _of_value(kind: Type, fields: ProviderFields | None, value: Any) -> dict[str, Any]:
    """What is to be known of the value beside itself; nothing of a text, a number or a null."""
    match kind:
        case ObjectOf() | Anything() if value is None:
            return {"plu": {"i": {}}}  # to the provider a list of none
        case ObjectOf() if isinstance(value, dict):
            inner = {key: field.type for key, field in (schema.object_fields(kind) or {}).items()}
            return {"plu": {"i": _of_object(inner, fields, cast(dict[str, Any], value))}}
        case ListOf(item) if isinstance(value, list):
            parts = [_of_element(item, fields, each) for each in cast(list[Any], value)]
            return {"arr": {"el": {str(i): part for i, part in enumerate(parts) if part}} if any(parts) else {}}
        case MapOf() if isinstance(value, dict):
            return {"map": {}}
        case _:
            return {}


def _of_element(kind: Type, fields: ProviderFields | None, value: Any) -> dict[str, Any]:
    whole = _of_value(kind, fields, value)
    return whole["plu"]["i"] if isinstance(kind, ObjectOf) and value is not None else whole


def _snake(key: str) -> str:
    """As the bridge does it without being told (PulumiToTerraformName)."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
