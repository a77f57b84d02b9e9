"""The API server of one cluster over HTTP: discovery, and what is asked of an object.

Owns the connection, TLS, logins that have run out, and what is said of a server that cannot be reached. Refuses to own
what a refusal means (refusals.py) and when what is asked (objects.py).

httpx and not the official client: the import of `kubernetes.dynamic` takes 0.28 s of a processor on this machine, that
of httpx 0.03 s, besides 0.14 s of the server that every plugin is; of the client, discovery and six requests are used.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from infra.standins.kubernetes import login, refusals
from infra.standins.kubernetes.kubeconfig import ClusterAccess, UnreachableError
from infra.standins.kubernetes.login import Login
from infra.standins.kubernetes.manifests import Fields, Sort
from infra.standins.kubernetes.refusals import ApiRefusal

_TIMES = httpx.Timeout(30.0, connect=10.0)
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_UNAUTHORIZED = 401


class ApiRefusedError(Exception):
    """The API server has said no."""

    def __init__(self, refusal: ApiRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True)
class Served:
    """A kind that the API server has. plural: its word in paths."""

    sort: Sort
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.sort.api_version}" if self.sort.group else f"/api/{self.sort.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced else ""
        return f"{root}{within}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class ApiServer:
    """Every call raises UnreachableError or, where the server says no, ApiRefusedError."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._kinds: dict[str, dict[str, Served]] = {}

    @property
    def name(self) -> str:
        """As sentences call it."""
        return f"the cluster of context '{self._access.context}' at {self._access.server}"

    @property
    def namespace(self) -> str:
        return self._access.namespace

    def version(self) -> str:
        try:
            return str(self._ask("GET", "/version").get("gitVersion", ""))
        except ApiRefusedError as error:
            raise self._silent(error.refusal) from None

    def served(self, sort: Sort, anew: bool = False) -> Served | None:
        """None where the server has no such kind. anew: what it did not have a moment ago it may have now."""
        if anew:
            self._kinds.pop(sort.api_version, None)
        if sort.api_version not in self._kinds:
            self._kinds[sort.api_version] = self._discovered(sort)
        return self._kinds[sort.api_version].get(sort.kind)

    def get(self, kind: Served, namespace: str, name: str) -> Fields | None:
        try:
            return self._ask("GET", kind.path(namespace, name))
        except ApiRefusedError as error:
            if error.refusal.is_absence:
                return None
            raise

    def try_create(self, kind: Served, manifest: Fields, namespace: str, manager: str) -> Fields:
        """All that a create would go through, its name last: what exists already is refused after all else passed."""
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": manager}
        return self._ask("POST", kind.path(namespace), query, manifest)

    def apply(
        self, kind: Served, manifest: Fields, place: tuple[str, str], manager: str, force: bool, dry: bool
    ) -> Fields:
        """place: namespace and name. force: take fields that belong to another manager."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
        return self._ask("PATCH", kind.path(*place), query | ({"dryRun": "All"} if dry else {}), manifest, _APPLY)

    def delete(self, kind: Served, namespace: str, name: str, propagation: str) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        self._ask("DELETE", kind.path(namespace, name), {}, options)

    # Below: how a request is made.

    def _discovered(self, sort: Sort) -> dict[str, Served]:
        path = f"/apis/{sort.api_version}" if sort.group else f"/api/{sort.version}"
        try:
            found = self._ask("GET", path)
        except ApiRefusedError as error:
            if error.refusal.is_absence:
                return {}
            raise self._silent(error.refusal) from None
        return {
            each["kind"]: Served(Sort(sort.group, sort.version, each["kind"]), each["name"], bool(each["namespaced"]))
            for each in cast(list[Fields], found.get("resources") or [])
            if "/" not in each["name"]  # a part of another, such as pods/log
        }

    def _silent(self, refusal: ApiRefusal) -> UnreachableError:
        return UnreachableError(f"{self.name} does not say what it has: {refusal.sentence()}")

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Fields | None = None,
        content: str = "application/json",
    ) -> Fields:
        answer = self._send(method, path, query or {}, body, content)
        if answer.status_code == _UNAUTHORIZED and self._access.user.get("exec"):
            self._forget_login()
            answer = self._send(method, path, query or {}, body, content)
        if answer.is_success:
            return cast(Fields, answer.json())
        try:
            said: Any = answer.json()
        except ValueError:
            said = None
        refusal = refusals.parse(answer.status_code, said)
        if answer.status_code == _UNAUTHORIZED:
            raise UnreachableError(
                f"{self.name} does not know who asks: {refusal.message}; check the kubeconfig's user"
            )
        raise ApiRefusedError(refusal)

    def _send(
        self, method: str, path: str, query: Mapping[str, str], body: Fields | None, content: str
    ) -> httpx.Response:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({"Content-Type": content} if data else {})
        server_name = self._access.cluster.get("tls-server-name")
        try:
            return self._connection().request(
                method,
                self._access.server.rstrip("/") + path,
                params=query,
                content=data,
                headers=headers,
                extensions={"sni_hostname": str(server_name)} if server_name else None,
            )
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError) as error:
            raise UnreachableError(f"{self.name} cannot be reached: {' '.join(str(error).split())}") from None

    def _connection(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                own = login.obtain(self._access)
                self._client = httpx.Client(
                    verify=self._trust(own),
                    headers=dict(own.headers),
                    timeout=_TIMES,
                    proxy=cast(str | None, self._access.cluster.get("proxy-url")),
                )
            return self._client

    def _forget_login(self) -> None:
        with self._lock:
            self._client = None

    def _trust(self, own: Login) -> ssl.SSLContext:
        """Whom we believe to be the server, and who we say that we are."""
        cluster = self._access.cluster
        try:
            authority = login.text_of(cluster, "certificate-authority")
            trust = ssl.create_default_context(cadata=authority or None)
            if cluster.get("insecure-skip-tls-verify"):
                trust.check_hostname = False
                trust.verify_mode = ssl.CERT_NONE
            if own.certificate:
                _load_certificate(trust, own)
        except (ssl.SSLError, ValueError) as error:
            raise UnreachableError(
                f"{self.name} has certificates in its kubeconfig that cannot be read: {error}"
            ) from None
        return trust


def _load_certificate(trust: ssl.SSLContext, own: Login) -> None:
    """By way of a file, since the library takes it from nowhere else."""
    with tempfile.TemporaryDirectory(prefix="slipway-") as directory:  # its mode lets nobody else in
        path = Path(directory) / "client.pem"
        path.write_text(f"{own.certificate}\n{own.key}\n", encoding="utf-8")
        trust.load_cert_chain(path)
