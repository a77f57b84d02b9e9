"""What is billed in a project under our label, in the words that all targets share. Pure.

`slipway orphans` deletes what no stack knows, and `slipway gc` keeps what its hosts install.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.names import OWNER_LABEL, STATE_LABEL


@dataclass(frozen=True)
class Billed:
    """Something that costs money and carries our label. name: as its API spells it; stack: its label.

    bundle is what its hosts install; empty where that is not known.
    """

    name: str
    stack: str
    state: str
    labels: tuple[tuple[str, str], ...]
    bundle: str = ""

    @property
    def owner(self) -> str:
        """Its label; empty without one."""
        return dict(self.labels).get(OWNER_LABEL, "")

    @property
    def owner_digest(self) -> str:
        """Tells apart owners of one label (names.owner_digest); empty for what 0.1.0 has made."""
        digest, dash, _ = dict(self.labels).get(STATE_LABEL, "").partition("-")
        return digest if dash else ""
