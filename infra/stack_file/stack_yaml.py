"""A stack file as the engine reads it: text to the values of our keys, the same whoever reads them.

Owns the YAML of a stack file, which is the engine's (a Go library's: `1e3` is a number, `yes` is text, a date is a
point in time), the types of Pulumi.yaml's schema, and what no stack file may say: a key twice, a secret, a namespace
misspelled. Refuses to own what keys mean (infra/stack_file/settings.py). tests/engine/test_stack_yaml.py
compares with the engine.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, cast

import yaml

from infra.paths import ROOT

NAMESPACE = "slipway:"
_MOST_VALUES = 100_000  # aliases of aliases make a small file endless

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DAY = r"(\d{4})-(\d\d?)-(\d\d?)"
_CLOCK = r"(\d\d?):(\d\d?):(\d\d?)(?:\.\d{1,9})?"
_MOMENT = re.compile(rf"{_DAY}(?:[Tt]{_CLOCK}(Z|[-+]\d\d:\d\d)|\ {_CLOCK})?")
_KINDS = {
    "string": "one value",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "a mapping, one `key: value` per line below `{}:`",
    "array": "a list, one `- value` per line below `{}:`",
}
_IMPLICIT = "implicit"  # the tag of a scalar without one
_STANDARD = "tag:yaml.org,2002:"


class StackFileError(ValueError):
    """What the engine or we do not take, in one sentence."""


# Composes nodes only (with libyaml where the wheel has it): what a scalar is, _scalar says.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LOADER: Any = type("_LOADER", (_BASE,), {"yaml_implicit_resolvers": {}, "DEFAULT_SCALAR_TAG": _IMPLICIT})


@cache
def declared() -> dict[str, dict[str, Any]]:
    """The config schema of Pulumi.yaml, by key."""
    return cast(dict[str, dict[str, Any]], document((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"])


def document(text: str) -> dict[str, Any]:
    """A YAML mapping as the engine reads it, empty where the text is something else. Raises StackFileError."""
    try:
        node = yaml.compose(text, _LOADER)
        value = _Reader().value(node) if node else None
    except (yaml.YAMLError, RecursionError) as error:
        raise StackFileError(f"is not YAML: {' '.join(str(error).split())}") from None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def written(text: str) -> dict[str, Any]:
    """The keys of ours that a stack file has: each value as the engine hands it over, objects and lists as such.

    Raises StackFileError.
    """
    config = document(text).get("config")
    if not isinstance(config, dict):
        raise StackFileError("has no `config:` mapping")
    entries = cast(dict[str, Any], config)
    for key in entries:
        _check_key(key)
    values = {key.removeprefix(NAMESPACE): value for key, value in entries.items() if key.startswith(NAMESPACE)}
    for name, value in values.items():
        for each in _inside(value):
            if isinstance(each, float) and not math.isfinite(each):
                raise StackFileError(f"has {each} below `{NAMESPACE}{name}`; write a number")
        if any(map(_is_secret, _inside(value))):
            raise StackFileError(f"has {secret(name)}")
    return {name: value if isinstance(value, dict | list) else as_text(value) for name, value in values.items()}


def secret(name: str) -> str:
    """What is said of an encrypted value."""
    return (
        f"`{NAMESPACE}{name}` encrypted; a stack file keeps no secret: write the value as it is, and what is secret "
        f"into Secret Manager, named in `{NAMESPACE}host_secrets`"
    )


def as_text(value: object) -> str:
    """A scalar as the engine hands it over."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def of_engine(name: str, text: str) -> Any:
    """A value that the engine handed over, objects and lists as such."""
    if declared().get(name, {}).get("type") not in ("object", "array"):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def is_default(name: str, value: Any) -> bool:
    """Whether the engine would hand this over for a key that the stack does not have."""
    schema = declared().get(name, {})
    default = schema.get("default")
    return "default" in schema and value == (default if isinstance(default, dict | list) else as_text(default))


def typed(name: str, value: Any) -> Any:
    """A value of the type that Pulumi.yaml declares, as the engine demands it. Raises StackFileError."""
    kind = declared().get(name, {}).get("type")
    fits: Mapping[str | None, bool] = {
        None: True,
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "integer": isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,18}", value, re.ASCII) is not None,
        "boolean": value in ("true", "false"),
    }
    if not fits[kind]:
        raise StackFileError(f"{name} is {value!r}; write {_KINDS[str(kind)].format(NAMESPACE + name)}")
    return int(value) if kind == "integer" else value == "true" if kind == "boolean" else value


def _check_key(key: str) -> None:
    """The engine takes other spellings of `slipway:name` too, which would be a second one here."""
    namespace, colon, name = key.partition(":")
    if not colon or ":" in name.removeprefix("config:"):
        raise StackFileError(f"has the key {key!r}; write it with its namespace: `{NAMESPACE}{key.rpartition(':')[2]}`")
    meant = difflib.get_close_matches(namespace, [NAMESPACE[:-1]], cutoff=0.7)
    if meant and (namespace != meant[0] or name.startswith("config:")):
        raise StackFileError(f"has the key {key!r}; write `{NAMESPACE}{name.removeprefix('config:')}`")


def _inside(value: object) -> Iterator[object]:
    """The value, and every one below it."""
    yield value
    below: Iterable[object] = ()
    if isinstance(value, dict):
        below = cast(dict[str, object], value).values()
    elif isinstance(value, list):
        below = cast(list[object], value)
    for each in below:
        yield from _inside(each)


def _is_secret(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    mapping = cast(dict[str, object], value)
    return list(mapping) == ["secure"] and isinstance(mapping["secure"], str)


class _Reader:
    """Nodes to values, as the engine's YAML library does it."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._values = 0

    def value(self, node: yaml.Node) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _fault(node, f"stands for more than {_MOST_VALUES:,} values; write fewer aliases")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise _fault(node, "contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(each) for each in cast(list[yaml.Node], node.value)]
            return self._mapping(cast(yaml.MappingNode, node))
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        seen = set[str]()
        for key, each in cast(list[tuple[yaml.Node, yaml.Node]], node.value):
            if not isinstance(key, yaml.ScalarNode):
                raise _fault(key, "is a key and no single value")
            if key.value in seen:
                raise _fault(key, f"has key '{key.value}' again; remove one")
            seen.add(key.value)
            if key.value == "<<" and not key.style:
                sources = [self.value(one) for one in (each.value if isinstance(each, yaml.SequenceNode) else [each])]
                if not all(isinstance(source, dict) for source in sources):
                    raise _fault(each, "is merged with `<<` and no mapping")
                for source in reversed(sources):
                    merged |= source
            else:
                name = _scalar(key)
                own[name if isinstance(name, str) else as_text(name)] = self.value(each)
        return merged | own


def _fault(node: yaml.Node, what: str) -> StackFileError:
    return StackFileError(f"is not YAML: line {node.start_mark.line + 1} {what}")


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.tag == _STANDARD + "str" or (node.tag == _IMPLICIT and node.style):
        return text
    if node.tag not in (_IMPLICIT, *(_STANDARD + name for name in ("int", "float", "bool", "null", "timestamp"))):
        raise _fault(node, f"has the tag {node.tag}; leave it out")
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        return _moment(text) or _number(text)
    return text


def _moment(text: str) -> str | None:
    """A point in time as Go prints one; what comes after the offset depends on the machine."""
    match = _MOMENT.fullmatch(text)
    if not match:
        return None
    clock = match.group(4, 5, 6) if match[4] else match.group(8, 9, 10)
    month, day, hour, minute, second = (int(part or 0) for part in (*match.group(2, 3), *clock))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return None
    zone = "+0000 UTC" if match[7] in (None, "Z") else f"{match[7].replace(':', '')} {match[7].replace(':', '')}"
    return f"{match[1]}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} {zone}"


def _number(text: str) -> int | float | str:
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer:
        sign, *digits = integer.groups()
        base, found = next((base, one) for base, one in zip((16, 2, 8, 10), digits, strict=True) if one is not None)
        number = int(f"{sign}{found}", base) if len(found) < 4000 else 2**64
        if -(2**63) <= number < 2**64:
            return number
    number = float(plain) if _FLOAT.fullmatch(plain) else math.inf
    if not math.isfinite(number):
        return text
    # up to 10^21 Go writes a number without a fraction as its shortest digits and zeros
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number
