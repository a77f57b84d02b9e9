"""The text of an imported stack file. Pure.

Owns the order of the keys and how values are spelled, so that the engine reads what was meant. Refuses to own which
keys there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import yaml

from infra.names import PLACEHOLDER_PROJECT
from infra.preview.new_stack import SALT
from infra.stack_file import stack_yaml

_FIRST = (
    "target",
    "project",
    "owner",
    "accelerator",
    "regions",
    "zones",
    "tier",
    "reservation",
    "max_runtime",
    "image",
)


def write(keys: Mapping[str, Any], training: Mapping[str, Any], origin: str) -> str:
    """origin: of what it is made, in one line."""
    order = [*(key for key in _FIRST if key in keys), *(key for key in keys if key not in _FIRST)]
    lines = [f"encryptionsalt: {SALT}", f"# {origin}", "config:"]
    for key in order:
        lines += _lines(f"slipway:{key}", keys[key], "  ", _note(key, keys[key]))
    if training:
        lines += ["  slipway:training:", *(line for key in training for line in _lines(key, training[key], "    "))]
    return "\n".join(lines) + "\n"


def _note(key: str, value: Any) -> str:
    return " # yours; this one only previews" if key == "project" and value == PLACEHOLDER_PROJECT else ""


def _lines(key: str, value: Any, indent: str, note: str = "") -> list[str]:
    if isinstance(value, Mapping):
        mapping = cast(Mapping[str, Any], value)
        return [f"{indent}{key}:", *(line for name in mapping for line in _lines(name, mapping[name], indent + "  "))]
    return [f"{indent}{key}: {_spelled(value)}{note}"]


def _spelled(value: Any) -> str:
    """On one line. The engine takes some words for numbers that Python's reader does not, so they get quotes."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True)
    text = text.removesuffix("\n").removesuffix("\n...")
    if not isinstance(value, str) or stack_yaml.document(f"value: {text}") == {"value": value}:
        return text
    return json.dumps(value)
