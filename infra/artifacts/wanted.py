"""Which bundle the hosts of a state's request shall run: one small object for each state, beside the artifacts.

A request that waits cannot be told of another bundle, so its hosts read it here when they boot (training/bootstrap.sh).
The one kind of object that changes. Refuses to own when it is written and forgotten: a target's provider decides that.

wanted/<stack>/<identity>      the stack as its label, the identity of one of its states; 16 hex digits
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from infra.artifacts.store import Entry, NoObjectError, Store

_KEY = re.compile(r"wanted/(?P<stack>[^/]+)/(?P<state>[^/]+)")


def wanted_key(stack: str, state: str) -> str:
    return f"wanted/{stack}/{state}"


def write(store: Store, key: str, bundle: str) -> None:
    """Say that it is this bundle from now on. Raises StoreError."""
    store.replace(key, f"{bundle}\n".encode())


def read(store: Store, key: str) -> str:
    """What is said, which a host refuses where it is no bundle's hash; empty where nothing is. Raises StoreError."""
    try:
        return store.read(key).decode(errors="replace").strip()
    except NoObjectError:
        return ""


def of_entries(entries: Iterable[Entry]) -> dict[str, str]:
    """The stack's label by key, of those in a listing. Pure; keys of another form are left out."""
    return {entry.key: match["stack"] for entry in entries if (match := _KEY.fullmatch(entry.key))}
