"""What was decided, as messages of the engine's protocol.

Owns their form. Refuses to decide (changes.py).
"""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from infra.providers.proto import provider_pb2
from infra.standins.field_changes import FieldChange, detailed


def failures(problems: Iterable[tuple[str, str]]) -> list[Any]:
    """Of inputs: pairs of a key, which may be empty, and a sentence."""
    return [provider_pb2.CheckFailure(property=key, reason=reason) for key, reason in problems]


def difference(found: Sequence[FieldChange], same_place: bool) -> Any:
    """same_place: the new one has the old one's name and namespace, so that the old one has to go first."""
    replaced = [each.path for each in found if each.replaces]
    response = provider_pb2.DiffResponse
    return response(
        changes=response.DIFF_SOME if found else response.DIFF_NONE,
        replaces=replaced,
        deleteBeforeReplace=bool(replaced) and same_place,
        diffs=list(dict.fromkeys(each.key for each in found)),
        detailedDiff=detailed(found),
        hasDetailedDiff=True,
    )
