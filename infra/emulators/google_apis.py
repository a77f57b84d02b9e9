"""What `slipway doctor` asks of Google, over real HTTP: tokens, a project, APIs, permissions, quotas, buckets.

Owns the answers and the errors of Google's JSON APIs. Refuses to own what a project has (`EmulatedProject`, and
cloud_projects.py for the emulated cloud) and anything that changes it, but for what people and scripts use:

    POST /_/refused  {"permissions": ["cloudquotas.quotas.get"]}: whoever asks does not have these
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from infra.emulators.http_server import EmulatorHandler, HttpEmulator

TOKEN = "emulated-token"
ACCOUNT = "me@real-project.iam.gserviceaccount.com"


class RefusedError(Exception):
    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass
class EmulatedProject:
    """What there is. refused: permissions that whoever asks does not have, each needed by the call that is named so.

    quotas: by name, then by zone or region, with `key=value` of a further dimension behind a space; `default` is for
    what has no line of its own.
    """

    project: str = "real-project"
    state: str = "ACTIVE"
    services: set[str] = field(default_factory=set[str])
    permissions: set[str] = field(default_factory=set[str])
    quotas: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    buckets: dict[str, str] = field(default_factory=dict[str, str])  # name to location
    billing_accounts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # id to permissions
    bucket_roles: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])  # to members
    reservations: dict[str, str] = field(default_factory=dict[str, str])  # full name to machine type
    refused: set[str] = field(default_factory=set[str])
    page_size: int = 2

    def has(self, project: str) -> bool:
        return project == self.project

    def granted(self, asked: list[str]) -> list[str]:
        return [name for name in asked if name in self.permissions - self.refused]

    def quota_values(self, project: str, name: str) -> dict[str, int] | None:
        """As `quotas` has them; None where there is no quota of that name."""
        del project
        return self.quotas.get(name)


class GoogleApis(HttpEmulator):
    """Context manager around the server."""

    def __init__(self, project: EmulatedProject, port: int = 0) -> None:
        self.project = project
        self.calls: list[str] = []
        self.grants = True  # whether tokens are given
        super().__init__(_Handler, port)

    def write_credentials(self, file: Path) -> None:
        """A service account's key, whose tokens this server gives."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        fields = {"type": "service_account", "client_email": ACCOUNT, "private_key_id": "1", "project_id": "elsewhere"}
        file.write_text(json.dumps(fields | {"private_key": key.decode(), "token_uri": f"{self.url}/token"}))

    # --- answers ---

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> dict[str, Any]:
        for pattern, route in _ROUTES.items():
            verb, _, form = pattern.partition(" ")
            if verb == method and (found := re.fullmatch(form, path)):
                return route(self, *map(unquote, found.groups()), query=query, body=body)
        raise RefusedError(404, f"The emulator does not know {method} {path}.")

    def check(self, project: str, permission: str = "", service: str = "") -> None:
        if not self.project.has(project):
            raise RefusedError(403, "The caller does not have permission")
        self.check_permission(permission, f"projects/{project}")
        if service and service not in self.project.services:
            raise RefusedError(403, f"{service} API has not been used in project {project} before.", "SERVICE_DISABLED")

    def check_permission(self, permission: str, resource: str) -> None:
        if permission in self.project.refused:
            sentence = f"Permission '{permission}' denied on resource '{resource}' (or it may not exist)."
            raise RefusedError(403, sentence)

    def about(self, project: str, **_: Any) -> dict[str, Any]:
        self.check(project, "resourcemanager.projects.get")
        return {"projectId": project, "projectNumber": "123", "lifecycleState": self.project.state}

    def services(self, project: str, query: dict[str, str], **_: Any) -> dict[str, Any]:
        self.check(project, "serviceusage.services.list")
        names = sorted(self.project.services)
        start = int(query.get("pageToken") or 0)
        page = names[start : start + self.project.page_size]
        listed = [{"name": f"projects/123/services/{name}.googleapis.com", "state": "ENABLED"} for name in page]
        more = start + len(page) < len(names)
        return {"services": listed} | ({"nextPageToken": str(start + len(page))} if more else {})

    def permissions(self, project: str, body: bytes, **_: Any) -> dict[str, Any]:
        self.check(project)
        held = self.project.granted(json.loads(body)["permissions"])
        return {"permissions": held} if held else {}

    def billing_permissions(self, account: str, body: bytes, **_: Any) -> dict[str, Any]:
        if account not in self.project.billing_accounts:
            raise RefusedError(403, "The caller does not have permission")
        asked = json.loads(body)["permissions"]
        return {"permissions": [name for name in asked if name in self.project.billing_accounts[account]]}

    def quota(self, project: str, service: str, name: str, **_: Any) -> dict[str, Any]:
        self.check(project, "cloudquotas.quotas.get", "cloudquotas")
        values = self.project.quota_values(project, name)
        if values is None:
            raise RefusedError(404, f"QuotaInfo {name} of {service} is not found.")
        rows: list[dict[str, Any]] = []
        for place, value in values.items():
            places: dict[str, Any] = {"applicableLocations": ["us-east5-b", "us-east5-a", "us-east5"]}
            if place != "default":
                location, *further = place.split()
                dimensions = {"zone" if location.count("-") > 1 else "region": location}
                dimensions |= dict(each.split("=") for each in further)
                places = {"dimensions": dimensions, "applicableLocations": [location]}
            rows.append(places | {"details": {"value": str(value)}})
        return {"quotaId": name, "service": service, "dimensionsInfos": rows}

    def bucket(self, name: str, **_: Any) -> dict[str, Any]:
        self.check_permission("storage.buckets.get", f"b/{name}")
        if name not in self.project.buckets:
            raise RefusedError(404, "The specified bucket does not exist.")
        return {"location": self.project.buckets[name]}

    def bucket_policy(self, name: str, **_: Any) -> dict[str, Any]:
        self.check_permission("storage.buckets.getIamPolicy", f"b/{name}")
        if name not in self.project.buckets:
            raise RefusedError(404, "The specified bucket does not exist.")
        held = self.project.bucket_roles.get(name, {})
        return {"bindings": [{"role": role, "members": sorted(members)} for role, members in held.items()]}

    def reservation(self, project: str, zone: str, name: str, **_: Any) -> dict[str, Any]:
        self.check(project, "compute.reservations.get", "compute")
        full = f"projects/{project}/zones/{zone}/reservations/{name}"
        if full not in self.project.reservations:
            raise RefusedError(404, f"The resource '{full}' was not found")
        machine = self.project.reservations[full]
        return {"name": name, "specificReservation": {"count": "2", "instanceProperties": {"machineType": machine}}}


_ROUTES: dict[str, Callable[..., dict[str, Any]]] = {
    "GET /v1/projects/([^/:]+)": GoogleApis.about,
    "GET /v1/projects/([^/:]+)/services": GoogleApis.services,
    "POST /v1/projects/([^/:]+):testIamPermissions": GoogleApis.permissions,
    "POST /v1/billingAccounts/([^/:]+):testIamPermissions": GoogleApis.billing_permissions,
    "GET /v1/projects/([^/:]+)/locations/global/services/([^/]+)/quotaInfos/([^/]+)": GoogleApis.quota,
    "GET /storage/v1/b/([^/]+)": GoogleApis.bucket,
    "GET /storage/v1/b/([^/]+)/iam": GoogleApis.bucket_policy,
    "GET /compute/v1/projects/([^/]+)/zones/([^/]+)/reservations/([^/]+)": GoogleApis.reservation,
}


def _admit(authorization: str) -> None:
    if authorization != f"Bearer {TOKEN}":
        raise RefusedError(401, "Request had invalid authentication credentials.")


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: GoogleApis = self.server.owner
        body = self.body()
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        try:
            if parts.path == "/token":
                self._send(*self._token(owner))
                return
            if parts.path == "/_/refused":
                owner.project.refused = set(json.loads(body)["permissions"])
                self._send(200, {})
                return
            owner.calls.append(f"{self.command} {parts.path}")
            _admit(self.headers.get("Authorization") or "")
            self._send(200, owner.answer(self.command, parts.path, query, body))
        except RefusedError as error:
            details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.reason}]
            said = {"code": error.status, "message": str(error)} | ({"details": details} if error.reason else {})
            self._send(error.status, {"error": said})

    do_GET = do_POST = _serve  # noqa: N815 (http.server's names)

    def _token(self, owner: GoogleApis) -> tuple[int, dict[str, Any]]:
        if owner.grants:
            return 200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}

    def _send(self, status: int, value: dict[str, Any]) -> None:
        self.send(status, {"Content-Type": "application/json"}, json.dumps(value).encode())
