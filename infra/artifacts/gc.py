"""Which artifacts of a store nobody uses any more. Pure: a listing and the names in use in, what may be deleted out.

Owns the rule. Refuses to own where names come from (infra/runs/named_artifacts.py) and deleting (infra/commands/gc.py).
A key of a form that it does not know stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from infra.artifacts.layout import SUMS, objects_of, wheelhouse_key
from infra.artifacts.store import Entry, StoreError

# The forms of infra/artifacts/layout.py
_OBJECT = re.compile(r"objects/([0-9a-f]{64})/[^/]+")
_WHEELHOUSE = re.compile(r"wheelhouses/([0-9a-f]{16})/([^/]+)")
_BUNDLE = re.compile(r"bundles/([0-9a-f]{16})/[^/]+")


@dataclass(frozen=True)
class Named:
    """Ids of wheelhouses and hashes of bundles that something uses, and contents of prepared text that it reads."""

    wheelhouses: frozenset[str] = frozenset()
    bundles: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def __or__(self, other: Named) -> Named:
        texts = self.texts | other.texts
        return Named(self.wheelhouses | other.wheelhouses, self.bundles | other.bundles, texts)


def kept_wheelhouses(entries: Iterable[Entry], named: Named, now: datetime, min_age: timedelta) -> frozenset[str]:
    """Wheelhouses of the store whose SHA256SUMS must be read: named ones, and those too young to judge."""
    wanted: set[str] = set()
    indexed: set[str] = set()
    for entry in entries:
        if match := _WHEELHOUSE.fullmatch(entry.key):
            if match[2] == SUMS:
                indexed.add(match[1])
            if match[1] in named.wheelhouses or now - entry.updated < min_age:
                wanted.add(match[1])
    if broken := (wanted & named.wheelhouses) - indexed:
        wheelhouse = min(broken)
        raise StoreError(
            f"wheelhouse {wheelhouse} is in use but has no {wheelhouse_key(wheelhouse)}, so its objects are unknown;"
            f" push it again, then run gc again"
        )
    return frozenset(wanted & indexed)


def unreferenced(
    entries: Iterable[Entry], named: Named, sums: Mapping[str, str], now: datetime, min_age: timedelta
) -> list[Entry]:
    """What may go, in the order to delete it: SHA256SUMS before objects, so that a visible wheelhouse is whole.

    sums: text of SHA256SUMS by id, for each of `kept_wheelhouses`. What is younger than `min_age` stays: a build in
    progress has objects that nothing names yet.
    """
    objects = {key for wheelhouse, text in sums.items() for key in objects_of(wheelhouse, text)}

    def is_kept(key: str) -> bool:
        if _OBJECT.fullmatch(key):
            return key in objects
        if match := _WHEELHOUSE.fullmatch(key):
            return match[1] in sums or match[1] in named.wheelhouses
        if match := _BUNDLE.fullmatch(key):
            return match[1] in named.bundles
        return True

    gone = [entry for entry in entries if now - entry.updated >= min_age and not is_kept(entry.key)]
    return sorted(gone, key=lambda entry: (not entry.key.endswith(f"/{SUMS}"), entry.key))
