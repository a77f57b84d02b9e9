"""What the stand-in makes beside its files, where emulators are named that others look at.

Owns which types those are. Refuses to own the calls (emulated_buckets.py, emulated_clusters.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.emulated import GKE, STORAGE
from infra.standins.gcp import emulated_buckets, gke
from infra.standins.gcp.emulated_buckets import EmulatedBuckets
from infra.standins.gcp.emulated_clusters import EmulatedClusters


class EmulatedWorld:
    """environment: names the emulators; where it names none nothing is done."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._buckets = EmulatedBuckets(environment.get(STORAGE, ""))
        self._clusters = EmulatedClusters(environment.get(GKE, ""))

    def make(self, token: str, identifier: str, made: Mapping[str, Any], project: str) -> dict[str, Any]:
        """Outputs that only the emulator knows. project: the provider's, for what names none."""
        if token == emulated_buckets.TOKEN:
            location = str(made.get("location") or "US")
            self._buckets.make(identifier, str(made.get("project") or project), location)
        elif token in emulated_buckets.GRANTS:
            self._buckets.grant(token, made)
        elif token == gke.CLUSTER:
            return self._clusters.make(identifier, made)
        elif token == gke.POOL:
            self._clusters.make_pool(identifier, made)
        return {}

    def read(self, token: str, identifier: str, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        """None where somebody has taken it away there."""
        if token in emulated_buckets.GRANTS and not self._buckets.has(token, thing):
            return None
        if token in (gke.CLUSTER, gke.POOL):
            return self._clusters.read(identifier, thing)
        return {**thing}

    def change(self, token: str, identifier: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if token == gke.POOL:
            self._clusters.change_pool(identifier, old, new)

    def delete(self, token: str, identifier: str, properties: Mapping[str, Any]) -> None:
        if token == emulated_buckets.TOKEN:
            self._buckets.delete(identifier)
        elif token in emulated_buckets.GRANTS:
            self._buckets.revoke(token, properties)
        elif token in (gke.CLUSTER, gke.POOL):
            self._clusters.delete(identifier)
