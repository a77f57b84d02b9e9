"""A create that is about to happen, as whoever may refuse it sees it.

Owns whose API it calls, and what it may ask of what is there. Refuses to own refusals (preconditions.py,
gke_refusals.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from infra.standins.gcp.store import StandInStore

# Inputs that name something by its whole path, and so its project.
_PATHS = ("keyRing", "cryptoKeyId", "network", "cluster", "serviceAccountId")


@dataclass(frozen=True)
class Making:
    """A create that is about to happen. settings: the provider's, empty where not set; store: what exists already."""

    token: str
    inputs: Mapping[str, Any]
    settings: Mapping[str, str]
    store: StandInStore

    def exists(self, token: str, identifier: str) -> bool:
        return self.store.read(token, identifier) is not None

    def text(self, key: str) -> str:
        value = self.inputs.get(key)
        return value if isinstance(value, str) else ""

    @property
    def project(self) -> str:
        """Whose API is called: the project that the inputs name, or the provider's; empty where neither names one."""
        if self.token.startswith("gcp:billing/"):
            return self.settings["billingProject"]
        bucket = self.store.read("gcp:storage/bucket:Bucket", self.text("bucket")) or {}
        paths = (self.text(key) for key in _PATHS)
        named = (match[1] for path in paths if (match := re.search(r"projects/([^/]+)/", path)))
        return self.text("project") or next(named, "") or str(bucket.get("project") or self.settings["project"])

    def object(self, key: str) -> Mapping[str, Any]:
        """A nested input; empty where there is none."""
        value = self.inputs.get(key)
        return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
