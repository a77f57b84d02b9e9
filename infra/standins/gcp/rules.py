"""What the official plugin refuses at an offline preview, as one sentence per fault.

Owns: unknown keys, missing and mistyped values at any depth (from schema.py), and the few closed choices and forms that
the official plugin checks itself. Refuses to own: anything the official plugin lets pass (machine types, TPU
topologies, bucket names, labels); those checks are Slipway's, in settings and the hardware table.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from infra.providers.input_types import UNKNOWN
from infra.standins.gcp import schema
from infra.standins.gcp.schema import Anything, Field, ListOf, MapOf, ObjectOf, ResourceType, Scalar, Type


@dataclass(frozen=True)
class Problem:
    """path: as `nodeConfig.taints[0].effect`."""

    path: str
    reason: str


type Check = Callable[[str], str | None]


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"expected one of {', '.join(allowed)}"


def _form(pattern: str, words: str) -> Check:
    return lambda value: None if re.fullmatch(pattern, value) else f"expected {words} ({pattern})"


def _or_empty(check: Check) -> Check:
    """The same check, which lets an empty text pass: most enumerations of the API read it as none."""
    return lambda value: check(value) if value else None


def _cidr(value: str) -> str | None:
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        return f"expected a CIDR range such as 10.0.0.0/16: {error}"
    return None if "/" in value else "expected a CIDR range such as 10.0.0.0/16"


_NAME = _form("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "a name of 1-63 lowercase letters, digits and dashes")
_ACCOUNT_ID = _form("[a-z][-a-z0-9]{4,28}[a-z0-9]", "6-30 lowercase letters, digits and dashes")
_NODE_RESERVATION = _one_of(
    "UNSPECIFIED", "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION", "ANY_RESERVATION_THEN_FAIL"
)
_VM_RESERVATION = _one_of("ANY_RESERVATION", "SPECIFIC_RESERVATION", "NO_RESERVATION")

# (package.Args class, key, check), from the ValidateFunc of each field in the Google provider's source. The kinds of
# check are those that a run of plugin 9.35 was seen to refuse.
_CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("compute.NetworkArgs", "name", _NAME),
    ("compute.NetworkArgs", "routingMode", _or_empty(_one_of("REGIONAL", "GLOBAL"))),
    ("compute.SubnetworkArgs", "name", _NAME),
    ("compute.SubnetworkArgs", "ipCidrRange", _cidr),
    ("compute.SubnetworkSecondaryIpRangeArgs", "ipCidrRange", _cidr),
    ("compute.FirewallArgs", "name", _NAME),
    ("compute.RouterArgs", "name", _NAME),
    ("compute.RouterNatArgs", "name", _NAME),
    ("compute.*ReservationAffinityArgs", "type", _VM_RESERVATION),
    ("container.*NodeConfigReservationAffinityArgs", "consumeReservationType", _NODE_RESERVATION),
    ("container.*NodeConfigTaintArgs", "effect", _one_of("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")),
    ("container.ClusterPrivateClusterConfigArgs", "masterIpv4CidrBlock", _cidr),
    ("serviceaccount.AccountArgs", "accountId", _ACCOUNT_ID),
    ("tpu.V2VmDataDiskArgs", "mode", _or_empty(_one_of("READ_WRITE", "READ_ONLY"))),
)

# The same for the keys of a map.
_LABEL_KEY = _form(r"[a-z0-9_-]{1,63}", "1-63 lowercase letters, digits, dashes and underscores")
_KEY_CHECKS: tuple[tuple[str, str, Check], ...] = (("storage.BucketArgs", "labels", _LABEL_KEY),)

# Keys of which a resource takes at most one (ConflictsWith of the same source).
_CONFLICTS: tuple[tuple[str, str, str], ...] = (("tpu.V2VmArgs", "acceleratorType", "acceleratorConfig"),)


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
    pairs = [(key, other) for owner, key, other in _CONFLICTS if owner == name]
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
    for pattern, key, check in _CHECKS:
        value = values.get(key)
        if isinstance(value, str) and fnmatchcase(name, pattern) and (wrong := check(value)):
            yield Problem(path + key, f"'{key}' is '{value}', {wrong}")
    for owner, key, check in _KEY_CHECKS:
        labels = values.get(key)
        for label in cast(dict[str, Any], labels) if name == owner and isinstance(labels, dict) else ():
            if wrong := check(label):
                yield Problem(f"{path}{key}.{label}", f"'{label}' is a key of '{key}', {wrong}")
    for owner, key, other in _CONFLICTS:
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
