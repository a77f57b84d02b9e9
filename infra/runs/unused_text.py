"""Which prepared texts of a data bucket nothing reads any more. Pure: a listing and the names in use in, texts out.

Owns the rule. Refuses to own where names come from (infra/runs/named_artifacts.py) and deleting (infra/commands/gc.py).
What is not laid out as prepared text is stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from infra.artifacts.store import Entry
from training.data.identity import MANIFEST

_OBJECT = re.compile(r"([0-9a-f]{16})/[^/]+")


@dataclass(frozen=True)
class StoredText:
    """`entries` in the order to delete them: the manifest first, so that a text which has one is whole."""

    content: str
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def updated(self) -> datetime:
        """When the newest of it came, or an `up` has last found it there."""
        return max(entry.updated for entry in self.entries)


def unused_texts(entries: Iterable[Entry], named: Set[str], now: datetime, min_age: timedelta) -> list[StoredText]:
    """The largest first. named: contents that something reads. What is younger than `min_age` may be on its way."""
    of_content: dict[str, list[Entry]] = {}
    for entry in entries:
        if match := _OBJECT.fullmatch(entry.key):
            of_content.setdefault(match[1], []).append(entry)
    texts = [StoredText(content, _manifest_first(each)) for content, each in of_content.items() if content not in named]
    old = [text for text in texts if now - text.updated >= min_age]
    return sorted(old, key=lambda text: (-text.bytes, text.content))


def _manifest_first(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: (not entry.key.endswith(f"/{MANIFEST}"), entry.key)))
