"""Pulumi.yaml's `config:` is what the settings classes make."""

from __future__ import annotations

import pytest

from infra.paths import ROOT
from infra.stack_file.project_schema import config, project_text
from infra.stack_file.settings import Absent, StackSettings


class Farm(StackSettings):
    field: str
    """The field's name."""
    cows: Absent[int] = None
    """How many cows
    it has."""


class Ranch(StackSettings):
    cows: Absent[int] = None
    """Of a ranch, how many cows
    may be out."""


class Dairy(StackSettings):
    cows: int = 3
    """How many cows it milks."""


class Silent(StackSettings):
    hens: int = 1


def test_pulumi_yaml_is_what_the_settings_make() -> None:
    text = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8")
    assert text == project_text(text), "the settings say otherwise of a key; run: make keys"


def test_only_the_block_of_the_keys_is_written() -> None:
    text = project_text("name: x\nconfig:\n  old:\n    type: string\n# why\nmain: infra/\n")
    assert text.startswith("name: x\nconfig:\n  target:\n")
    assert text.endswith("\n# why\nmain: infra/\n")
    assert "old:" not in text


def test_a_key_of_two_targets_says_what_it_is_in_each() -> None:
    keys = config([Farm, Ranch])
    assert list(keys) == ["target", "field", "cows"]
    assert "default" not in keys["target"], "every stack says it"
    assert keys["field"] == {"type": "string", "default": "", "description": "The field's name."}
    assert keys["cows"]["description"] == "How many cows it has. Of a ranch, how many cows may be out."


def test_what_the_engine_could_not_tell_apart_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cows of Dairy is {'type': 'integer', 'default': 3}, another target's"):
        config([Farm, Dairy])


def test_a_key_without_a_description_is_refused() -> None:
    with pytest.raises(ValueError, match="hens of Silent has no description; write it below the field"):
        config([Silent])
