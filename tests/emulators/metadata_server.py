"""A GCE metadata server: identity, token and attributes of one VM, over real HTTP.

Owns the paths that Google's auth library and our shell scripts ask for. `GCE_METADATA_HOST` (host:port, without scheme)
and, for the library's probe, `GCE_METADATA_IP` point clients here.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-vm"
ROOT = "/computeMetadata/v1/"


class MetadataServer:
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
        } | {f"instance/attributes/{name}": value for name, value in (attributes or {}).items()}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self

    @property
    def host(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: MetadataServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        owner: MetadataServer = self.server.owner
        parts = urlsplit(self.path)
        if self.headers.get("Metadata-Flavor") != "Google":
            status, kind, body = 403, "text/html", "Missing Metadata-Flavor:Google header."
        elif parts.path == "/":
            status, kind, body = 200, "application/text", "computeMetadata/"
        else:
            owner.requests.append(parts.path)
            below = self.path.removeprefix(ROOT)
            status, kind, body = owner.answer(below) if below != self.path else (404, "text/html", "not found")
        content = body.encode()
        self.send_response(status)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass  # tests read `requests`
