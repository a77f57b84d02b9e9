"""A GCE metadata server: identity, token and attributes of one VM, over real HTTP.

Owns the paths that Google's clients and our shell scripts ask for, and guest attributes, which the VM writes. Refuses
to own what a VM's attributes are: whoever has the VM changes `values`. `GCE_METADATA_HOST` (host:port, without scheme)
and, for the probe of Google's library, `GCE_METADATA_IP` point clients here. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from infra.emulators.http_server import EmulatorHandler, HttpEmulator

TOKEN = "token-of-the-vm"
EMAIL = "vm@a-project.iam.gserviceaccount.com"
ROOT = "/computeMetadata/v1/"
GUEST = "instance/guest-attributes/"
_ACCOUNT = re.compile(r"instance/service-accounts/([^/]+)/(.*)")

type Publish = Callable[[str, str, str | None], None]


class MetadataServer(HttpEmulator):
    """Context manager. `values` maps a path below /computeMetadata/v1/ to its text; `change` it while it serves.

    `publish` hears of each guest attribute: namespace, key and value, or None where it was deleted.
    """

    def __init__(
        self,
        token: str = TOKEN,
        attributes: Mapping[str, str] | None = None,
        email: str = EMAIL,
        publish: Publish = lambda namespace, key, value: None,
        at: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self.token = token
        self.email = email
        self.publish = publish
        self.requests: list[str] = []  # paths asked for, with the header
        self.instead: list[int] = []  # statuses that the next requests get, one each
        self.values: dict[str, str] = {
            "project/project-id": "a-project",
            "project/numeric-project-id": "1",
            "instance/name": "a-vm",
            "instance/id": "1",
            "instance/zone": "projects/1/zones/europe-west4-a",
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
            "universe/universe-domain": "googleapis.com",
        } | {f"instance/attributes/{name}": value for name, value in (attributes or {}).items()}
        self.changed = threading.Condition()
        super().__init__(_Handler, at[1], at[0])

    # --- changes ---

    def change(self, name: str, value: str | None) -> None:
        """Another value, or None to remove it, which ends the long polls that wait for it."""
        with self.changed:
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value
            self.changed.notify_all()

    def set_values(self, values: Mapping[str, str]) -> None:
        """These, whatever else there is."""
        with self.changed:
            if values.items() - self.values.items():
                self.values |= values
                self.changed.notify_all()

    def set_attributes(self, attributes: Mapping[str, str]) -> None:
        """These, and none besides."""
        wanted = {f"instance/attributes/{name}": value for name, value in attributes.items()}
        with self.changed:
            old = {name for name in self.values if name.startswith("instance/attributes/")}
            if {name: self.values[name] for name in old} != wanted:
                for name in old:
                    del self.values[name]
                self.values |= wanted
                self.changed.notify_all()

    def write_guest_attribute(self, name: str, value: str | None) -> tuple[int, str]:
        """A PUT or, without a value, a DELETE of `instance/guest-attributes/<namespace>/<key>`."""
        namespace, slash, key = name.removeprefix(GUEST).partition("/")
        if not name.startswith(GUEST) or not slash or not key or "/" in key:
            return 404, "only instance/guest-attributes/<namespace>/<key> can be written"
        if self.values.get("instance/attributes/enable-guest-attributes", "").upper() != "TRUE":
            return 403, "Guest attributes endpoint access is disabled."
        self.change(name, value)
        self.publish(namespace, key, value)
        return 200, ""

    # --- answers ---

    def etag(self, name: str) -> str:
        return hashlib.sha256(json.dumps(self._below(name) or self.values.get(name, "")).encode()).hexdigest()[:16]

    def wait_for_change(self, path: str) -> None:
        """As `?wait_for_change=true&last_etag=..&timeout_sec=..` does; without an ETag for the next change."""
        name, _, query = path.partition("?")
        asked = {key: values[0] for key, values in parse_qs(query).items()}
        if asked.get("wait_for_change") == "true":
            with self.changed:
                last = asked.get("last_etag") or self.etag(name)
                timeout_s = float(asked["timeout_sec"]) if "timeout_sec" in asked else None
                self.changed.wait_for(lambda: self.etag(name) != last, timeout_s)

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body for a path below /computeMetadata/v1/."""
        name, _, query = path.partition("?")
        recursive = parse_qs(query).get("recursive", [""])[0].lower() == "true"
        if name == "instance/service-accounts/":
            return 200, "application/text", f"{self.email}/\ndefault/\n"
        if account := _ACCOUNT.fullmatch(name):
            return self._answer_of_account(account[1], account[2], recursive)
        if name in self.values:
            return 200, "application/text", self.values[name]
        if name.endswith("/") and (below := self._below(name)):
            if recursive:
                return 200, "application/json", json.dumps(_tree(below))
            entries = (key.partition("/") for key in below)
            return 200, "application/text", "\n".join(dict.fromkeys(first + slash for first, slash, _ in entries))
        return 404, "text/html", "not found"

    def _answer_of_account(self, name: str, asked: str, recursive: bool) -> tuple[int, str, str]:
        if name not in ("default", self.email):
            return 404, "text/html", "not found"
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
        info = {"aliases": ["default"], "email": self.email, "scopes": scopes}
        token = {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"}
        if asked == "":
            listing = "aliases\nemail\nidentity\nscopes\ntoken\n"
            return (200, "application/json", json.dumps(info)) if recursive else (200, "application/text", listing)
        answers = {"token": ("application/json", json.dumps(token)), "email": ("application/text", self.email)}
        answers |= {key: ("application/text", "\n".join(info[key])) for key in ("aliases", "scopes")}
        return (200, *answers[asked]) if asked in answers else (404, "text/html", "not found")

    def _below(self, name: str) -> dict[str, str]:
        """What lies below a directory, by the rest of its path."""
        if not name.endswith("/"):
            return {}
        return {key.removeprefix(name): value for key, value in self.values.items() if key.startswith(name)}


def _tree(below: Mapping[str, str], of_attributes: bool = False) -> dict[str, Any]:
    """As `?recursive=true` nests it: keys in camel case, but for those that people choose."""
    directories: dict[str, dict[str, str]] = {}
    tree: dict[str, Any] = {}
    for path, value in below.items():
        first, slash, rest = path.partition("/")
        if slash:
            directories.setdefault(first, {})[rest] = value
        else:
            tree[first if of_attributes else _camel(first)] = value
    for first, values in directories.items():
        chosen = of_attributes or first in ("attributes", "guest-attributes")
        tree[first if of_attributes else _camel(first)] = _tree(values, chosen)
    return tree


def _camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join(word.title() for word in others)


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: MetadataServer = self.server.owner
        content = self.body()
        parts = urlsplit(self.path)
        below = self.path.removeprefix(ROOT)
        if owner.instead:
            status, kind, body = owner.instead.pop(0), "text/html", ""
        elif self.headers.get("Metadata-Flavor") != "Google":
            status, kind, body = 403, "text/html", "Missing Metadata-Flavor:Google header."
        elif self.headers.get("X-Forwarded-For"):
            status, kind, body = 403, "text/html", "Requests with an X-Forwarded-For header are refused."
        elif parts.path == "/":
            status, kind, body = 200, "application/text", "computeMetadata/"
        elif below == self.path:
            status, kind, body = 404, "text/html", "not found"
        elif self.command == "GET":
            owner.requests.append(parts.path)
            owner.wait_for_change(below)
            status, kind, body = owner.answer(below)
        else:
            owner.requests.append(parts.path)
            value = content.decode() if self.command == "PUT" else None
            (status, body), kind = owner.write_guest_attribute(below, value), "text/html"
        etag = owner.etag(parts.path.removeprefix(ROOT))
        self.send(status, {"Metadata-Flavor": "Google", "Content-Type": kind, "ETag": etag}, body.encode())

    do_GET = do_PUT = do_DELETE = _serve  # noqa: N815 (http.server's names)
