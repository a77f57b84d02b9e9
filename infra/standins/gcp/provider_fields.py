"""What Google's provider says of the fields of a resource type, by the SDK's keys.

Owns reading replaces.yaml and provider_fields.yaml, and their spelling: the provider's `secondary_ip_range` is
`secondaryIpRanges` to the SDK. Refuses to own what follows for a change (differences.py), and types that the tables do
not have.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

type FieldPath = tuple[str, ...]  # keys from the resource down, without the numbers of lists


@dataclass(frozen=True)
class ProviderFields:
    """Of one type. replaced: fields, and blocks as wholes; replaced_below: blocks, with all that is in them.

    sets: lists whose order means nothing. provider_names: of the keys whose camelCase the provider's name is not.
    minutes: the limit of each call.
    """

    replaced: frozenset[FieldPath]
    replaced_below: frozenset[FieldPath]
    sets: frozenset[FieldPath]
    computed: frozenset[FieldPath]
    defaults: Mapping[FieldPath, Any]
    unsent: frozenset[FieldPath]
    absent_after: frozenset[FieldPath]
    provider_names: Mapping[str, str]
    minutes: Mapping[str, int]
    version: int

    def replaces(self, path: FieldPath) -> bool:
        """Whether a change of this very field, or of whether this block is there, replaces the resource."""
        return path in self.replaced or any(path[:length] in self.replaced_below for length in range(1, len(path) + 1))

    def defaults_of(self, path: FieldPath) -> dict[str, Any]:
        """Of an object: what is filled in where it says nothing."""
        return {each[-1]: value for each, value in self.defaults.items() if each[:-1] == path}


@functools.cache
def of(token: str) -> ProviderFields | None:
    """None of a type that the tables do not have."""
    name = _names().get(token)
    if name is None:
        return None
    row, replaces = _table("provider_fields")[name], cast(list[str], _table("replaces")[name])
    spelled = cast(Mapping[str, str], row.get("spelled", {}))

    def paths(fields: Sequence[str]) -> frozenset[FieldPath]:
        return frozenset(_path(field, spelled) for field in fields)

    return ProviderFields(
        replaced=paths([each for each in replaces if not each.endswith(".*")]),
        replaced_below=paths([each.removesuffix(".*") for each in replaces if each.endswith(".*")]),
        sets=paths(row.get("sets", [])),
        computed=paths(row.get("computed", [])),
        defaults={_path(field, spelled): value for field, value in row.get("defaults", {}).items()},
        unsent=paths(row.get("unsent", [])),
        absent_after=paths(row.get("absent_after", [])),
        provider_names={key: field for field, key in spelled.items()},
        minutes=row.get("minutes", {}),
        version=row.get("version", 0),
    )


def tokens() -> list[str]:
    """The types that the tables have."""
    return list(_names())


@functools.cache
def _names() -> dict[str, str]:
    """The provider's name of each type."""
    return {row["type"]: name for name, row in _table("provider_fields").items()}


@functools.cache
def _table(name: str) -> dict[str, Any]:
    # libyaml's loader where the wheel has it: 4 ms instead of 40, at every preview of a foundation.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")
    return cast(dict[str, Any], yaml.load(text, loader))  # noqa: S506 (both are safe)


def _path(field: str, spelled: Mapping[str, str]) -> FieldPath:
    return tuple(spelled.get(part) or _camel(part) for part in field.split("."))


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)
