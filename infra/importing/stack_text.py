"""The text of an imported stack file. Pure.

Owns the order of the keys and how values are spelled, so that the engine reads what was meant. Refuses to own which
keys there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from infra.names import PLACEHOLDER_PROJECT
from infra.preview.new_stack import SALT

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
    lines = [f"# {origin}", f"encryptionsalt: {SALT}", "config:"]
    for key in order:
        lines += _lines(f"slipway:{key}", keys[key], "  ", _note(key, keys[key]))
    if training:
        lines += ["  slipway:training:", *(line for key in training for line in _lines(key, training[key], "    "))]
    return "\n".join(lines) + "\n"


def _note(key: str, value: Any) -> str:
    return " # yours; this one only previews" if key == "project" and value == PLACEHOLDER_PROJECT else ""


def _lines(key: str, value: Any, indent: str, note: str = "") -> list[str]:
    if isinstance(value, Mapping):
        mapping: Mapping[str, Any] = value
        return [f"{indent}{key}:", *(line for name in mapping for line in _lines(name, mapping[name], indent + "  "))]
    return [f"{indent}{key}: {_spelled(value)}{note}"]


def _spelled(value: Any) -> str:
    """On one line. Go's reader of YAML takes some words for numbers that Python's does not, so they get quotes."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True).removesuffix("\n")
    text = text.removesuffix("\n...")
    plain = isinstance(value, str) and text == value and not value.replace(".", "").replace("-", "").isalpha()
    return yaml.safe_dump(value, default_style='"', width=10**9).strip() if plain and _like_a_number(value) else text


def _like_a_number(text: str) -> bool:
    return text[:1] in "0123456789+-."
