"""Clusters and pools that the stand-in makes, in the emulated cluster that SLIPWAY_GKE_ENDPOINT names.

Owns that a cluster has the address and the certificate of one that answers, that a pool has nodes there, and that their
number follows. Refuses to own which nodes those are (infra/emulators/cluster/, over the API as Google has it), and what
an update changes beyond their number.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlsplit

from infra.emulated import GKE
from infra.providers.resource import ResourceError

_GONE = 404
_TIMEOUT_S = 600  # nodes of the largest slices take a minute
_FILLED_IN = ("endpoint", "masterAuth", "controlPlaneEndpointsConfig")
# Of a pool, what the API calls otherwise than the plugin: its nodes' configuration, and where they are.
_OF_POOLS = {"nodeConfig": "config", "nodeLocations": "locations"}


class EmulatedClusters:
    """endpoint: of the emulator's API; empty: nothing is done. Things are named by their paths."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def make(self, path: str, made: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs that only a cluster that answers has."""
        if not self._endpoint:
            return {}
        parent, _, name = path.rpartition("/")
        endpoints = made.get("controlPlaneEndpointsConfig")
        self._ask("POST", parent, {"cluster": {"name": name, "controlPlaneEndpointsConfig": endpoints}})
        answer = self._ask("GET", path)
        return {key: answer[key] for key in _FILLED_IN}

    def make_pool(self, path: str, made: Mapping[str, Any]) -> None:
        if self._endpoint:
            parent, _, name = path.rpartition("/")
            pool = {_OF_POOLS.get(key, key): value for key, value in made.items()}
            pool |= {"name": name, "initialNodeCount": made.get("nodeCount") or 0, "autoscaling": _autoscaling(made)}
            self._ask("POST", parent, {"nodePool": pool})

    def change_pool(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if not self._endpoint:
            return
        if _autoscaling(old) != _autoscaling(new):
            self._ask("POST", f"{path}:setAutoscaling", {"autoscaling": _autoscaling(new)})
        if old.get("nodeCount") != new.get("nodeCount"):
            self._ask("POST", f"{path}:setSize", {"nodeCount": new.get("nodeCount") or 0})

    def delete(self, path: str) -> None:
        """A cluster or a pool, if it is there."""
        if self._endpoint:
            self._ask("DELETE", path, passed_over=_GONE)

    def read(self, path: str, thing: Mapping[str, Any]) -> dict[str, Any] | None:
        """The thing as it is, a pool with as many nodes as it has by now; None where somebody has deleted it."""
        if not self._endpoint:
            return {**thing}
        answer = self._ask("GET", path, passed_over=_GONE)
        if "error" in answer:
            return None
        return {**thing} | ({"nodeCount": answer["initialNodeCount"]} if "/nodePools/" in path else {})

    def _ask(self, method: str, path: str, value: Any = None, passed_over: int = 0) -> dict[str, Any]:
        """Raises ResourceError in Google's words, but of that status."""
        connection = http.client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=_TIMEOUT_S)
        body = None if value is None else json.dumps(value)
        try:
            connection.request(method, f"/v1/{quote(path, safe='/:')}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except OSError as error:
            raise ResourceError(f"{GKE} is {self._endpoint}, which does not answer: {error}") from None
        finally:
            connection.close()
        found = cast(dict[str, Any], json.loads(text))
        if status >= 400 and status != passed_over:
            raise ResourceError(f"googleapi: Error {status}: {found['error']['message']}")
        return found


def _autoscaling(pool: Mapping[str, Any]) -> dict[str, Any]:
    bounds = pool.get("autoscaling")
    return {"enabled": True, **cast(Mapping[str, Any], bounds)} if isinstance(bounds, Mapping) else {}
