"""What Google's plugin writes into a state's inputs beyond the program: values it filled in itself, and their names.

Owns the key `__defaults`, which it keeps in every object: the names of this object's keys that the program left out
(pulumi-terraform-bridge, pkg/tfbridge/schema.go, applyDefaults). Refuses to own what is filled in: the stand-in knows
no default but a name, it only keeps those that are in the state, so that they are no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

FILLED_IN = "__defaults"


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
