"""Whether a value of the engine fits the annotation of an input: scalars, lists, maps, unions and optional ones.

Owns that a wrong value is found before a resource sees it, at any depth. Refuses to own sentences (resource.py).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, cast


class Unknown:
    """An input that the engine cannot know at preview."""


UNKNOWN = Unknown()


@cache
def of(inputs: type) -> Mapping[str, Any]:
    """The annotations of an inputs dataclass by field."""
    return typing.get_type_hints(inputs)


def fits(value: object, hint: Any) -> bool:
    """What is not known yet fits everywhere; whole numbers fit where floats are expected, true and false do not."""
    if value is UNKNOWN or hint is Any:
        return True
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, alternative) for alternative in arguments)
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in cast(list[Any], value))
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(item, arguments[1]) for item in cast(dict[str, Any], value).values()
        )
    if hint in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and (hint is float or value == int(value))
    return isinstance(value, hint)


def converted(value: Any, hint: Any) -> Any:
    """A checked value in its field's own type: the engine knows no whole numbers."""
    if isinstance(value, float) and not _takes(hint, float) and _takes(hint, int):
        return int(value)
    return value


def _takes(hint: Any, kind: type) -> bool:
    return hint is kind or kind in typing.get_args(hint)
