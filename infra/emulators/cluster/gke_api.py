"""A part of the Kubernetes Engine API before one emulated cluster: whoever makes a cluster there gets this one.

Owns clusters and pools as the API has them, in a file that lies with the cluster's state, and that a pool's nodes come
and go with it. Every change is done when it is answered, as an operation that has ended. Refuses to own nodes
(gke_pools.py, emulated_cluster.py), what GKE would not make, and every other call of the API.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml

from infra.emulators.cluster import gke_pools, waiting_pods
from infra.emulators.cluster.emulated_cluster import ClusterError, EmulatedCluster
from infra.emulators.cluster.nodes import PoolError
from infra.emulators.http_server import EmulatorHandler, HttpEmulator

_LOOK_S = 1.0  # between looks at pods that wait, while there is a pool that they could get
_PENDING = "/api/v1/pods?fieldSelector=status.phase%3DPending"
_CLUSTER = r"projects/[^/]+/locations/[^/]+/clusters"
_POOL = rf"({_CLUSTER}/[^/]+)/nodePools"

type Value = dict[str, Any]


class GkeApiError(Exception):
    """What the API answers instead."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class GkeApi(HttpEmulator):
    """Context manager around the server, and around what gives autoscaled pools their nodes."""

    def __init__(self, cluster: EmulatedCluster, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self._cluster = cluster
        self._file = cluster.layout.directory / "gke.json"
        self._things: dict[str, Value] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._changes = threading.RLock()
        self._ended = threading.Event()
        self._scaler = threading.Thread(target=self._scale, daemon=True)

    def __enter__(self) -> GkeApi:
        self._scaler.start()
        return super().__enter__()

    def close(self) -> None:
        self._ended.set()
        if self._scaler.is_alive():
            self._scaler.join()
        super().close()

    @property
    def token(self) -> str:
        """With which a cluster's API server is asked, in the place of one of Google's."""
        return str(yaml.safe_load(self._cluster.layout.kubeconfig.read_text())["users"][0]["user"]["token"])

    def answer(self, method: str, path: str, body: Value) -> Value:
        """Raises GkeApiError."""
        for verb, form, call in _CALLS:
            if verb == method and (found := re.fullmatch(form, path)):
                with self._changes:
                    return call(self, *found.groups(), **({"body": body} if verb == "POST" else {}))
        raise GkeApiError(404, "NOT_FOUND", f"The emulator does not know {method} {path}.")

    # --- calls ---

    def make_cluster(self, parent: str, body: Value) -> Value:
        given = cast(Value, body["cluster"])
        path = f"{parent}/{given['name']}"
        there = next((each for each in self._things if re.fullmatch(rf"{_CLUSTER}/[^/]+", each)), None)
        if there == path:
            raise GkeApiError(409, "ALREADY_EXISTS", f"Already exists: {path}.")
        if there:
            sentence = f"The emulator has one cluster, which is {there}: delete it, or start another emulator."
            raise GkeApiError(429, "RESOURCE_EXHAUSTED", sentence)
        authority = self._cluster.layout.certificates.authority.read_bytes()
        address = self._cluster.layout.server.removeprefix("https://")
        endpoints = {**given.get("controlPlaneEndpointsConfig", {})}
        endpoints["dnsEndpointConfig"] = {**endpoints.get("dnsEndpointConfig", {}), "endpoint": address}
        made = {
            "endpoint": address,
            "masterAuth": {"clusterCaCertificate": base64.b64encode(authority).decode()},
            "controlPlaneEndpointsConfig": endpoints,
            "status": "RUNNING",
        }
        return self._done("CREATE_CLUSTER", path, {**given, **made})

    def clusters(self, parent: str) -> Value:
        form = re.escape(parent).replace("/locations/\\-/", "/locations/[^/]+/") + "/[^/]+"
        return {"clusters": [each for path, each in self._things.items() if re.fullmatch(form, path)]}

    def thing(self, path: str) -> Value:
        if path not in self._things:
            raise GkeApiError(404, "NOT_FOUND", f"Not found: {path}.")
        return self._things[path]

    def delete_cluster(self, path: str) -> Value:
        self.thing(path)
        for pool in [each for each in self._things if each.startswith(f"{path}/nodePools/")]:
            self.delete_pool(pool)
        return self._done("DELETE_CLUSTER", path, None)

    def make_pool(self, cluster: str, body: Value) -> Value:
        self.thing(cluster)
        pool = cast(Value, body["nodePool"])
        path = f"{cluster}/nodePools/{pool['name']}"
        if path in self._things:
            raise GkeApiError(409, "ALREADY_EXISTS", f"Already exists: {path}.")
        self._change_nodes(path, pool, int(pool.get("initialNodeCount") or 0))
        return self._done("CREATE_NODE_POOL", path, pool)

    def pools(self, cluster: str) -> Value:
        return {"nodePools": [each for path, each in self._things.items() if path.startswith(f"{cluster}/nodePools/")]}

    def set_size(self, path: str, body: Value) -> Value:
        count = int(body["nodeCount"])
        pool = {**self.thing(path), "initialNodeCount": count}
        self._change_nodes(path, pool, count)
        return self._done("SET_NODE_POOL_SIZE", path, pool)

    def set_autoscaling(self, path: str, body: Value) -> Value:
        return self._done("UPDATE_CLUSTER", path, {**self.thing(path), "autoscaling": body["autoscaling"]})

    def delete_pool(self, path: str) -> Value:
        self.thing(path)
        self._cluster.change_pool(path.rpartition("/")[2], [])
        return self._done("DELETE_NODE_POOL", path, None)

    # --- below: how they are carried out ---

    def _change_nodes(self, path: str, pool: Value, count: int) -> None:
        cluster = path.split("/")[5]
        try:
            self._cluster.change_pool(str(pool["name"]), gke_pools.node_pools(cluster, pool, count))
        except PoolError as error:
            raise GkeApiError(400, "INVALID_ARGUMENT", str(error)) from None

    def _done(self, kind: str, path: str, thing: Value | None) -> Value:
        self._things.pop(path, None)
        if thing is not None:
            self._things[path] = thing
        self._file.write_text(json.dumps(self._things))
        return {"name": f"operation-{kind.lower()}", "operationType": kind, "status": "DONE", "targetLink": path}

    def _scale(self) -> None:
        """Until the server ends; with nothing to scale it asks nobody."""
        while not self._ended.wait(_LOOK_S):
            with self._changes:
                empty = {path: pool for path, pool in self._things.items() if _could_grow(pool)}
                if empty:
                    self._give_nodes(empty)

    def _give_nodes(self, empty: Mapping[str, Value]) -> None:
        wanted = [gke_pools.node_pools(path.split("/")[5], pool)[0] for path, pool in empty.items()]
        for name in waiting_pods.pools_for(self._pending_pods(), wanted):
            path, pool = next((path, pool) for path, pool in empty.items() if pool["name"] == name)
            self.set_size(path, {"nodeCount": gke_pools.most_nodes(pool)})

    def _pending_pods(self) -> list[Value]:
        layout = self._cluster.layout
        trusted = ssl.create_default_context(cafile=str(layout.certificates.authority))
        connection = http.client.HTTPSConnection(layout.server.removeprefix("https://"), context=trusted, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", _PENDING, headers={"Authorization": f"Bearer {self.token}"})
            return json.load(connection.getresponse())["items"]


def _could_grow(pool: Value) -> bool:
    return gke_pools.most_nodes(pool) > 0 == int(pool.get("initialNodeCount") or 0)


_CALLS: tuple[tuple[str, str, Callable[..., Value]], ...] = (
    ("POST", f"({_CLUSTER})", GkeApi.make_cluster),
    ("GET", f"({_CLUSTER})", GkeApi.clusters),
    ("GET", rf"({_CLUSTER}/[^/]+)", GkeApi.thing),
    ("DELETE", rf"({_CLUSTER}/[^/]+)", GkeApi.delete_cluster),
    ("POST", _POOL, GkeApi.make_pool),
    ("GET", _POOL, GkeApi.pools),
    ("GET", rf"({_CLUSTER}/[^/]+/nodePools/[^/]+)", GkeApi.thing),
    ("DELETE", rf"({_CLUSTER}/[^/]+/nodePools/[^/]+)", GkeApi.delete_pool),
    ("POST", rf"({_CLUSTER}/[^/]+/nodePools/[^/:]+):setSize", GkeApi.set_size),
    ("POST", rf"({_CLUSTER}/[^/]+/nodePools/[^/:]+):setAutoscaling", GkeApi.set_autoscaling),
)


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        body = self.body()
        path = re.sub(r"^/v1(beta1)?/", "", self.path.partition("?")[0])
        try:
            status, value = 200, self.server.owner.answer(self.command, path, json.loads(body or b"{}"))
        except GkeApiError as error:
            status = error.code
            value = {"error": {"code": error.code, "message": str(error), "status": error.status}}
        except ClusterError as error:
            status, value = 500, {"error": {"code": 500, "message": str(error), "status": "INTERNAL"}}
        self.send(status, {"Content-Type": "application/json"}, json.dumps(value).encode())

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 (http.server's names)
