"""A GCE metadata server: identity, token and attributes of one VM, over real HTTP.

Owns the paths that Google's auth library and our shell scripts ask for. `GCE_METADATA_HOST` (host:port, without scheme)
and, for the library's probe, `GCE_METADATA_IP` point clients here.
"""

from __future__ import annotations

import hashlib
import json
import threading
from urllib.parse import parse_qs, urlsplit

from infra.emulators.http_server import EmulatorHandler, HttpEmulator

TOKEN = "token-of-the-vm"
ROOT = "/computeMetadata/v1/"


class MetadataServer(HttpEmulator):
    """Context manager. `values` maps a path below /computeMetadata/v1/ to its text and may change while it serves."""

    def __init__(self, token: str = TOKEN, attributes: dict[str, str] | None = None, expires_in_s: int = 3600) -> None:
        self.token = token
        self.expires_in_s = expires_in_s
        self.requests: list[str] = []  # paths asked for, with the header
        self.values: dict[str, str] = {
            "project/project-id": "a-project",
            "project/numeric-project-id": "1",
            "instance/name": "a-vm",
            "instance/id": "1",
            "instance/zone": "projects/1/zones/europe-west4-a",
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
        } | {f"instance/attributes/{name}": value for name, value in (attributes or {}).items()}
        self.changed = threading.Condition()
        super().__init__(_Handler)

    def change(self, name: str, value: str) -> None:
        """Another value, which ends the long polls that wait for it."""
        with self.changed:
            self.values[name] = value
            self.changed.notify_all()

    def etag(self, name: str) -> str:
        return hashlib.sha256(self.values.get(name, "").encode()).hexdigest()[:16]

    def wait_for_change(self, path: str) -> None:
        """As `?wait_for_change=true&last_etag=..&timeout_sec=..` does."""
        name, _, query = path.partition("?")
        asked = {key: values[0] for key, values in parse_qs(query).items()}
        if asked.get("wait_for_change") == "true":
            with self.changed:
                self.changed.wait_for(lambda: self.etag(name) != asked.get("last_etag"), int(asked["timeout_sec"]))

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body for a path below /computeMetadata/v1/."""
        name, _, query = path.partition("?")
        account = "instance/service-accounts/default"
        if name == f"{account}/token":
            token = {"access_token": self.token, "expires_in": self.expires_in_s, "token_type": "Bearer"}
            return 200, "application/json", json.dumps(token)
        if name == f"{account}/email":
            return 200, "application/text", "vm@a-project.iam.gserviceaccount.com"
        if name == f"{account}/":
            info = {
                "aliases": ["default"],
                "email": "vm@a-project.iam.gserviceaccount.com",
                "scopes": ["cloud-platform"],
            }
            return 200, "application/json", json.dumps(info)
        if name in self.values:
            return 200, "application/text", self.values[name]
        below = {key.removeprefix(name): value for key, value in self.values.items() if key.startswith(name)}
        if name.endswith("/") and below:
            if parse_qs(query).get("recursive") == ["true"]:
                return 200, "application/json", json.dumps(below)
            return 200, "application/text", "\n".join(below)
        return 404, "text/html", "not found"


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: MetadataServer = self.server.owner
        parts = urlsplit(self.path)
        if self.headers.get("Metadata-Flavor") != "Google":
            status, kind, body = 403, "text/html", "Missing Metadata-Flavor:Google header."
        elif parts.path == "/":
            status, kind, body = 200, "application/text", "computeMetadata/"
        else:
            owner.requests.append(parts.path)
            below = self.path.removeprefix(ROOT)
            owner.wait_for_change(below)
            status, kind, body = owner.answer(below) if below != self.path else (404, "text/html", "not found")
        etag = owner.etag(parts.path.removeprefix(ROOT))
        self.send(status, {"Metadata-Flavor": "Google", "Content-Type": kind, "ETag": etag}, body.encode())

    do_GET = _serve  # noqa: N815 (http.server's name)
