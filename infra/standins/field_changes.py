"""Changes of a resource's fields, as a stand-in finds them and the engine hears of them.

Owns their form. Refuses to decide: each stand-in does (gcp/differences.py, kubernetes/changes.py).
"""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from infra.providers.proto import provider_pb2


class ChangeKind(StrEnum):
    """Of a change, as the engine spells it."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class FieldChange:
    """path: as the engine shows it, `spec.containers[0].image`."""

    path: str
    kind: ChangeKind
    replaces: bool = False

    @property
    def key(self) -> str:
        """The input of the resource that it is in."""
        return self.path.partition(".")[0].partition("[")[0]


def detailed(changes: Iterable[FieldChange]) -> dict[str, Any]:
    """By path, as the engine's protocol has them."""
    return {each.path: _property_diff(each) for each in changes}


def _property_diff(change: FieldChange) -> Any:
    kind = f"{change.kind}_REPLACE" if change.replaces else change.kind
    return provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.Kind.Value(kind), inputDiff=True)
