"""A variable of a host's environment, as `slipway env` shows it. Refuses to own what any target sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostVariable:
    """source: who says that value; holds: for which versions. Both are empty for what Slipway itself reads."""

    name: str
    value: str
    why: str = ""
    source: str = ""
    holds: str = ""
