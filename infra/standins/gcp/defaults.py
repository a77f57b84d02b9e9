"""What Google's plugin writes into a state's inputs beyond the program: values it filled in itself, and their names.

Owns the key `__defaults`, which it keeps in every object: the names of this object's keys that the program left out
(pulumi-terraform-bridge, pkg/tfbridge/schema.go, applyDefaults). What was filled in once is kept, so that it is no
change. Refuses to own which defaults there are (provider_fields.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from infra.standins.gcp import schema
from infra.standins.gcp.provider_fields import FieldPath, ProviderFields
from infra.standins.gcp.schema import Field, ListOf, ObjectOf, Type

FILLED_IN = "__defaults"


def filled_in(
    types: Mapping[str, Field],
    fields: ProviderFields | None,
    values: Mapping[str, Any],
    excluded: frozenset[str] = frozenset(),
    path: FieldPath = (),
) -> dict[str, Any]:
    """The inputs with the defaults of their type, at any depth. excluded: keys that conflict with what is given."""
    result = {
        key: _filled_value(types[key].type, fields, value, (*path, key)) if key in types else value
        for key, value in values.items()
    }
    there = fields.defaults_of(path) if fields else {}
    new = {key: value for key, value in there.items() if result.get(key) is None and key not in excluded}
    return result | new | {FILLED_IN: sorted({*_names(values), *new})}


def _filled_value(kind: Type, fields: ProviderFields | None, value: Any, path: FieldPath) -> Any:
    match kind:
        case ListOf(item) if isinstance(value, list):
            return [_filled_value(item, fields, each, path) for each in cast(list[Any], value)]
        case ObjectOf() if isinstance(value, list):
            return [_filled_value(kind, fields, each, path) for each in cast(list[Any], value)]
        case ObjectOf() if isinstance(value, dict):
            inner = schema.object_fields(kind)
            values = cast(dict[str, Any], value)
            return values if inner is None else filled_in(inner, fields, values, path=path)
        case _:
            return value


def without(value: Any) -> Any:
    """The value as it was before anything was named in it, at any depth."""
    if isinstance(value, dict):
        values = cast(Mapping[str, Any], value)
        return {key: without(each) for key, each in values.items() if key != FILLED_IN}
    if isinstance(value, list):
        return [without(each) for each in cast(list[Any], value)]
    return value


def carried_over(
    old: Mapping[str, Any], new: Mapping[str, Any], excluded: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The new inputs with what was filled in into the old ones, where the program still says nothing of it.

    excluded: keys that conflict with what the program says now.
    """
    result = {key: _value(old.get(key), value) for key, value in new.items()}
    if FILLED_IN not in old:
        return result
    keys = [key for key in _names(old) if key in old and key not in new and key not in excluded]
    return result | {key: old[key] for key in keys} | {FILLED_IN: sorted({*_names(new), *keys})}


def same(old: Any, new: Any) -> bool:
    """Whether two values are one to Google's plugin: it writes 8896 where the program says "8896", true for "true"."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(Mapping[str, Any], old), cast(Mapping[str, Any], new)
        return all(same(before.get(key), after.get(key)) for key in {*before, *after} - {FILLED_IN})
    if isinstance(old, list) and isinstance(new, list):
        befores, afters = cast(list[Any], old), cast(list[Any], new)
        return len(befores) == len(afters) and all(map(same, befores, afters))
    if isinstance(old, str | int | float) and isinstance(new, str | int | float):
        return _text(old) == _text(new)
    return bool(old == new)


def _value(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return carried_over(cast(Mapping[str, Any], old), cast(Mapping[str, Any], new))
    if isinstance(old, list) and isinstance(new, list):
        befores, afters = cast(list[Any], old), cast(list[Any], new)
        return [_value(before, after) for before, after in zip(befores, afters, strict=False)] + afters[len(befores) :]
    return new


def _names(values: Mapping[str, Any]) -> list[str]:
    return cast(list[str], values.get(FILLED_IN) or [])


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
