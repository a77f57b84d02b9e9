"""Who uses what in an artifact store that several people share: one record per stack and owner, beside the artifacts.

Every `up` leaves one before it makes anything, and `destroy` removes it, so that `slipway gc` keeps what a colleague's
stack needs, whose state it cannot read. A record is an object like any other: its key says everything, and its age
starts anew with each `up`.

uses/<owner>/<stack>/<wheelhouse>-<bundle>      owner and stack as their labels
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from infra.artifacts.gc import Named
from infra.artifacts.store import Entry, Store, put_bytes

PREFIX = "uses/"
_KEY = re.compile(r"uses/(?P<owner>[^/]+)/(?P<stack>[^/]+)/(?P<wheelhouse>[0-9a-f]{16})-(?P<bundle>[0-9a-f]{16})")


@dataclass(frozen=True)
class Use:
    """One stack's `up`. owner and stack as labels spell them."""

    owner: str
    stack: str
    wheelhouse: str
    bundle: str

    @property
    def user(self) -> str:
        return f"{self.owner}/{self.stack}"

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.user}/{self.wheelhouse}-{self.bundle}"

    @property
    def named(self) -> Named:
        return Named(frozenset({self.wheelhouse}), frozenset({self.bundle}))


def record(store: Store, use: Use) -> None:
    """Write the record of a use, or set its age back to zero. Raises StoreError."""
    put_bytes(store, use.key, f"{use.key}\n".encode())


def forget(store: Store, user: str, kept: Use | None = None) -> int:
    """Remove what `user` (owner/stack) has left, but for `kept`. Returns how many. Raises StoreError."""
    keys = [key for key in store.keys(f"{PREFIX}{user}/") if kept is None or key != kept.key]
    for key in keys:
        store.delete(key)
    return len(keys)


def of_entries(entries: Iterable[Entry]) -> dict[Use, datetime]:
    """The uses in a listing, each with the time of its last `up`. Pure; keys of another form are left out."""
    uses: dict[Use, datetime] = {}
    for entry in entries:
        if match := _KEY.fullmatch(entry.key):
            uses[Use(match["owner"], match["stack"], match["wheelhouse"], match["bundle"])] = entry.updated
    return uses


def named(uses: Iterable[Use]) -> Named:
    """Everything that somebody uses. Pure."""
    names = Named()
    for use in uses:
        names |= use.named
    return names
