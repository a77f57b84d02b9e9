"""What hosts ask of Google besides buckets, over real HTTP: Secret Manager (a version's value), Cloud Logging (write).

Owns secrets and who may read each, and the entries that were written. Every call needs the token of a host that is on,
and who writes entries a role on the project that does so.
Refuses to own tokens, which the hosts' fleet gives, policies (bucket_policies.py), and everything else of these
services. People and scripts use:

    POST /_/secret   {"name": "projects/p/secrets/s", "value": "v", "readers": ["a@p.iam.gserviceaccount.com"]};
                     null is a secret without a value
    GET  /_/entries  what was written to Cloud Logging
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import google_crc32c

from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.http_server import EmulatorHandler, HttpEmulator

_VERSION = re.compile(r"/v1/(projects/[^/]+/secrets/[^/]+)/versions/([^/:]+):access")
_LOG = re.compile(r"(projects|folders|organizations|billingAccounts)/[^/]+/logs/[^/]+")
_WRITERS = frozenset(("roles/logging.logWriter", "roles/logging.admin", "roles/editor", "roles/owner"))
_MOST_ENTRIES_BYTES = 10 * 1024 * 1024


class RefusedCallError(Exception):
    """In the words of google.rpc."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(frozen=True)
class StoredSecret:
    """`value` is None before a version was added."""

    value: str | None
    readers: frozenset[str]


class HostServices(HttpEmulator):
    """Context manager. `accounts`: the e-mail behind each token that is valid now; they and `policies` may change."""

    def __init__(self, accounts: Mapping[str, str], policies: BucketPolicies, port: int = 0) -> None:
        self.accounts, self.policies = accounts, policies
        self.secrets = dict[str, StoredSecret]()
        self.entries: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        super().__init__(_Handler, port)

    # --- answers ---

    def access(self, name: str, version: str, account: str) -> dict[str, Any]:
        """The value of a secret's version; who may not read it does not learn whether it is there."""
        secret = self.secrets.get(name)
        if secret is None or account not in secret.readers:
            raise _denied("secretmanager.versions.access", f"for resource '{name}/versions/{version}'")
        if secret.value is None or version not in ("latest", "1"):
            raise RefusedCallError(404, "NOT_FOUND", f"Secret Version [{name}/versions/{version}] not found.")
        content = secret.value.encode()
        checksum: Any = google_crc32c  # it has no types
        payload = {"data": base64.b64encode(content).decode(), "dataCrc32c": str(checksum.value(content))}
        return {"name": f"{name}/versions/1", "payload": payload}

    def write(self, body: bytes, account: str) -> dict[str, Any]:
        """entries:write. An entry with the log and insertId of one that is there is not kept twice."""
        if len(body) > _MOST_ENTRIES_BYTES:
            raise RefusedCallError(400, "INVALID_ARGUMENT", "Request size exceeds the limit of 10 MB.")
        try:
            request: Any = json.loads(body)
            written = [_entry(request, each) for each in request.get("entries", [])]
        except (ValueError, AttributeError) as error:
            raise RefusedCallError(400, "INVALID_ARGUMENT", f"Invalid JSON payload received. {error}") from None
        for parent in {"/".join(each["logName"].split("/")[:2]) for each in written}:
            if not self.policies.roles_on_project(parent.removeprefix("projects/"), account) & _WRITERS:
                raise _denied("logging.logEntries.create", f"on resource '{parent}'")
        with self.lock:
            known = {(each["logName"], each["insertId"]) for each in self.entries if "insertId" in each}
            self.entries += [each for each in written if (each["logName"], each.get("insertId")) not in known]
        return {}

    def set_secret(self, body: bytes) -> dict[str, Any]:
        said: Any = json.loads(body)
        self.secrets[said["name"]] = StoredSecret(said["value"], frozenset(said["readers"]))
        return {}


def _denied(permission: str, where: str) -> RefusedCallError:
    sentence = f"Permission '{permission}' denied {where} (or it may not exist)."
    return RefusedCallError(403, "PERMISSION_DENIED", sentence)


def _entry(request: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """With what the request says for all."""
    whole: dict[str, Any] = {"logName": request.get("logName", ""), "resource": request.get("resource")} | entry
    payloads = {"textPayload", "jsonPayload", "protoPayload"} & whole.keys()
    if not _LOG.fullmatch(str(whole["logName"])) or not _type_of(whole["resource"]):
        raise ValueError("logName and resource.type are required")
    if len(payloads) > 1:
        raise ValueError(f"oneof field 'payload' is already set: {', '.join(sorted(payloads))}")
    return whole


def _type_of(resource: Any) -> str:
    return str(resource.get("type", "")) if resource else ""


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: HostServices = self.server.owner
        body = self.body()
        try:
            status, answer = 200, self._answer(owner, urlsplit(self.path).path, body)
        except RefusedCallError as error:
            status = error.code
            answer = {"error": {"code": error.code, "message": str(error), "status": error.status}}
        self.send(status, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(answer, indent=1).encode())

    do_GET = do_POST = _serve  # noqa: N815 (http.server's names)

    def _answer(self, owner: HostServices, path: str, body: bytes) -> Any:
        lever = _LEVERS.get((self.command, path))
        if lever:
            return lever(owner, body)
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        account = owner.accounts.get(token) if scheme == "Bearer" else None
        if account is None:
            sentence = "Request had invalid authentication credentials."
            raise RefusedCallError(401, "UNAUTHENTICATED", sentence)
        if self.command == "GET" and (asked := _VERSION.fullmatch(path)):
            return owner.access(asked[1], asked[2], account)
        if (self.command, path) == ("POST", "/v2/entries:write"):
            return owner.write(body, account)
        raise RefusedCallError(404, "NOT_FOUND", f"The emulator does not know {self.command} {path}.")


_LEVERS: dict[tuple[str, str], Callable[[HostServices, bytes], Any]] = {
    ("POST", "/_/secret"): HostServices.set_secret,
    ("GET", "/_/entries"): lambda owner, _: owner.entries,
}
