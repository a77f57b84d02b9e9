"""What commands ask of a target before they load any of it. Standard library only: the engine's wrapper reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """asks: the variables of infra/emulated.py that may put something else where this target's stacks ask Google.

    google_plugin: its stacks declare resources of Google's provider plugin.
    """

    asks: frozenset[str] = frozenset()
    google_plugin: bool = False

    @property
    def in_the_cloud(self) -> bool:
        return bool(self.asks)
