"""What Google's plugin has filled in into a state is no change of the program, at any depth."""

from __future__ import annotations

from typing import Any

import pytest

from infra.standins.gcp import defaults, rules
from infra.standins.gcp.schema import ObjectOf


def test_filled_in_values_are_kept_where_the_program_still_says_nothing() -> None:
    old = {"__defaults": ["purpose"], "purpose": "ENCRYPT_DECRYPT", "name": "key", "labels": {"a": "b"}}
    new = {"__defaults": [], "name": "key"}
    assert defaults.carried_over(old, new) == {"__defaults": ["purpose"], "purpose": "ENCRYPT_DECRYPT", "name": "key"}
    said = {"__defaults": [], "name": "key", "purpose": "MAC"}
    assert defaults.carried_over(old, said) == said


def test_filled_in_values_of_nested_objects_are_kept() -> None:
    old = {
        "__defaults": [],
        "rules": [{"__defaults": ["spendBasis"], "spendBasis": "CURRENT_SPEND", "percent": 1}],
        "config": {"__defaults": ["mode"], "mode": "A", "size": 1},
    }
    new = {"rules": [{"percent": 2}, {"percent": 3}], "config": {"size": 1}}
    kept = defaults.carried_over(old, new)
    assert kept["config"] == old["config"]
    assert kept["rules"] == [
        {"percent": 2, "spendBasis": "CURRENT_SPEND", "__defaults": ["spendBasis"]},
        {"percent": 3},
    ]


def test_a_filled_in_value_gives_way_to_what_it_conflicts_with() -> None:
    old = {"__defaults": ["acceleratorType"], "acceleratorType": "v2-8"}
    new = {"acceleratorConfig": {"type": "V6E", "topology": "2x4"}}
    conflicting = rules.conflicting(ObjectOf("tpu", "V2VmArgs"), new)
    assert conflicting == {"acceleratorType"}
    assert defaults.carried_over(old, new, conflicting) == new | {"__defaults": []}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (8896, "8896", True),
        ("true", True, True),
        ([{"__defaults": [], "a": 1}], [{"a": 1}], True),
        ([1, 2], [1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("1.5", 1.5, True),
        (True, 1, False),
        (None, "", False),
    ],
)
def test_values_as_googles_plugin_writes_them_are_the_programs(old: Any, new: Any, same: bool) -> None:
    assert defaults.same(old, new) is same
