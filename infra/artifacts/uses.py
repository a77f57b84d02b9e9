"""Who uses what in an artifact store that several people share: one record per stack and owner, beside the artifacts.

Every `up` leaves one before it makes anything, and `destroy` removes it, so that `slipway gc` keeps what a colleague's
stack needs, whose state it cannot read. A record is an object like any other: its key says everything, and its age
starts anew with each `up`. Clones of one stack file share owner and stack, so a record also names the state that uses
it, and no other state removes it.

uses/<owner>/<stack>/<wheelhouse>-<bundle>              owner and stack as their labels; an `up` that has just begun
uses/<owner>/<stack>/<wheelhouse>-<bundle>-<identity>   of a state
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from infra.artifacts.gc import Named
from infra.artifacts.store import Entry, Store, StoreError, put_bytes
from infra.artifacts.wanted import wanted_key
from infra.names import label_value, of_owner

PREFIX = "uses/"
_HASH = "[0-9a-f]{16}"
_KEY = re.compile(
    rf"uses/(?P<owner>[^/]+)/(?P<stack>[^/]+)/(?P<wheelhouse>{_HASH})-(?P<bundle>{_HASH})(-(?P<state>[0-9a-f-]+))?"
)


@dataclass(frozen=True)
class Use:
    """One stack's `up`. owner and stack as labels spell them; state is its identity, empty while that is not known."""

    owner: str
    stack: str
    wheelhouse: str
    bundle: str
    state: str = ""

    @property
    def user(self) -> str:
        return f"{self.owner}/{self.stack}"

    @property
    def owner_digest(self) -> str:
        """Tells apart owners of one label (names.owner_digest); empty while the state is not known."""
        return self.state.rpartition("-")[0]

    @property
    def key(self) -> str:
        return "-".join(filter(None, (f"{PREFIX}{self.user}/{self.wheelhouse}", self.bundle, self.state)))

    @property
    def named(self) -> Named:
        return Named(frozenset({self.wheelhouse}), frozenset({self.bundle}))


def record(store: Store, use: Use) -> None:
    """Write the record of a use, or set its age back to zero. Raises StoreError."""
    put_bytes(store, use.key, f"{use.key}\n".encode())


def forget(store: Store, ended: Use, kept: Use | None = None) -> None:
    """Remove a use that has ended, and what its state has left besides `kept`. Raises StoreError.

    What says no state may be another clone's.
    """
    for use in of_entries(store.entries(f"{PREFIX}{ended.user}/")):
        if use != kept and (use == ended or (use.state and use.state == ended.state)):
            store.delete(use.key)


def forget_user(store: Store, user: str) -> int:
    """Remove what a user (owner/stack, the owner as a label or as a stack file has it) has left. Returns how many uses.

    Raises StoreError, also for a label of several owners.
    """
    owner, _, stack = user.partition("/")
    try:
        gone = of_owner(of_entries(store.entries(f"{PREFIX}{label_value(owner)}/{stack}/")), owner)
    except ValueError as error:
        raise StoreError(f"nothing of {user} is forgotten: {error}") from None
    for use in gone:
        store.delete(use.key)
        if use.state:
            store.delete(wanted_key(use.stack, use.state))
    return len(gone)


def of_entries(entries: Iterable[Entry]) -> dict[Use, datetime]:
    """The uses in a listing, each with the time of its last `up`. Pure; keys of another form are left out."""
    uses: dict[Use, datetime] = {}
    for entry in entries:
        if match := _KEY.fullmatch(entry.key):
            uses[Use(**match.groupdict(default=""))] = entry.updated
    return uses


def named(uses: Iterable[Use]) -> Named:
    """Everything that somebody uses. Pure."""
    names = Named()
    for use in uses:
        names |= use.named
    return names
