"""What the official plugin refuses at an offline preview, as one sentence per fault.

Owns: unknown keys, missing and mistyped values at any depth (from schema.py), and that values are held to choices.py.
Refuses to own: which choices there are, and anything the official plugin lets pass.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from infra.providers.input_types import UNKNOWN
from infra.standins.gcp import choices, schema
from infra.standins.gcp.schema import Anything, Field, ListOf, MapOf, ObjectOf, ResourceType, Scalar, Type


@dataclass(frozen=True)
class Problem:
    """path: as `nodeConfig.taints[0].effect`."""

    path: str
    reason: str


def problems(resource: ResourceType, values: Mapping[str, Any], project: str) -> list[Problem]:
    """Every fault of a resource's inputs; unknown values pass. project: the provider's, empty where it has none."""
    faults = list(_object(resource.args, resource.inputs, values, ""))
    takes_project = "project" in resource.inputs and not resource.inputs["project"].required
    if takes_project and not (values.get("project") or project):
        faults.append(
            Problem("project", "no project: set it on the resource, or run `pulumi config set gcp:project <project>`")
        )
    return faults


def conflicting(kind: ObjectOf, values: Mapping[str, Any]) -> frozenset[str]:
    """Keys that cannot be set beside those that are."""
    name = f"{kind.package}.{kind.name}"
    pairs = [(key, other) for owner, key, other in choices.CONFLICTS if owner == name]
    return frozenset(other for pair in pairs for key, other in (pair, pair[::-1]) if values.get(key) is not None)


def unknown_keys(fields: Mapping[str, Field], values: Mapping[str, Any], path: str, what: str) -> Iterator[Problem]:
    for key in values:
        if key not in fields and not key.startswith("__"):
            near = difflib.get_close_matches(key, fields, n=3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            yield Problem(path + key, f"'{key}' is not an argument of {what}{hint}")


def _object(kind: ObjectOf, fields: Mapping[str, Field], values: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name = f"{kind.package}.{kind.name}"
    yield from unknown_keys(fields, values, path, name.removesuffix("Args").removesuffix("Init"))
    for key, field in fields.items():
        if values.get(key) is None:
            if field.required:
                yield Problem(path + key, f"'{key}' is required, but missing")
        else:
            yield from _value(field.type, values[key], path + key)
    for pattern, key, check in choices.CHECKS:
        value = values.get(key)
        if isinstance(value, str | int | float) and fnmatchcase(name, pattern) and (wrong := check(str(value))):
            yield Problem(path + key, f"'{key}' is '{value}', {wrong}")
    for owner, key, check in choices.KEY_CHECKS:
        labels = values.get(key)
        for label in cast(dict[str, Any], labels) if name == owner and isinstance(labels, dict) else ():
            if wrong := check(label):
                yield Problem(f"{path}{key}.{label}", f"'{label}' is a key of '{key}', {wrong}")
    for owner, key, other in choices.CONFLICTS:
        if name == owner and values.get(key) is not None and values.get(other) is not None:
            yield Problem(path + key, f"'{key}' conflicts with '{other}'; give one of them")


def _value(kind: Type, value: Any, path: str) -> Iterator[Problem]:
    if value is UNKNOWN or isinstance(kind, Anything):
        return
    match kind:
        case ListOf(item) if isinstance(value, list):
            for index, each in enumerate(cast(list[Any], value)):
                yield from _value(item, each, f"{path}[{index}]")
        case MapOf(inner) if isinstance(value, dict):
            for key, each in cast(dict[str, Any], value).items():
                yield from _value(inner, each, f"{path}.{key}")
        case ObjectOf() if isinstance(value, list) and len(cast(list[Any], value)) <= 1:
            # to Google's plugin an object is a list of at most one
            for each in cast(list[Any], value):
                yield from _value(kind, each, path)
        case ObjectOf() if isinstance(value, dict):
            fields = schema.object_fields(kind)
            if fields is not None:
                yield from _object(kind, fields, cast(dict[str, Any], value), path + ".")
        case Scalar(name) if _SCALARS[name](value):
            pass
        case _:
            yield _mistyped(path, value, _WORDS[kind.kind] if isinstance(kind, Scalar) else _SHAPES[type(kind)])


def _mistyped(path: str, value: Any, expected: str) -> Problem:
    shown = "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else f"'{value}'"
    return Problem(path, f"'{path.rpartition('.')[2]}' is {shown}, expected {expected}")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


# The official plugin converts between scalars where it can: "3" is a number, 3 and true are strings.
_SCALARS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str | int | float),
    "int": lambda value: _is_number(value) and float(value).is_integer(),
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool) or value in ("true", "false"),
}
_WORDS = {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}
_SHAPES = {ListOf: "a list", MapOf: "a map", ObjectOf: "an object"}
