"""A Google Cloud project as `slipway doctor` asks about it, over Google's own client for credentials and HTTP.

Owns the questions, and what it means where no answer comes. Refuses to own what a stack needs and how the doctor words
it (infra/doctor/). Nothing here changes anything. Not run against Google's own service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast
from urllib.parse import quote

from infra import emulated
from infra.google_cloud.api import SCOPE
from infra.google_login import LOGIN_COMMAND, advised

TIMEOUT_S = 20.0
LOGIN = f"run: {LOGIN_COMMAND}"
# Which role lets ask an API what is asked of it here.
_ROLES = {
    "cloudresourcemanager": "roles/browser",
    "serviceusage": "roles/serviceusage.serviceUsageViewer",
    "cloudquotas": "roles/cloudquotas.viewer",
    "cloudbilling": "roles/billing.viewer",
    "storage": "roles/storage.legacyBucketReader",
    "compute": "roles/compute.viewer",
}
_READS_POLICY = "roles/storage.legacyBucketOwner"


class GoogleError(Exception):
    """Why there is no answer, in one sentence. status: the API's, None where it was never reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Account:
    """`name` is empty where the credentials do not tell whose they are."""

    session: Any
    name: str


def account() -> Account:
    """Whoever Google's clients act as here, proven by a token. Raises GoogleError with the way to get credentials."""
    # Here, because Google's clients cost a second, which only these questions need.
    errors, transport = map(import_module, ("google.auth.exceptions", "google.auth.transport.requests"))
    try:
        credentials, _ = import_module("google.auth").default(scopes=[SCOPE])
        credentials.refresh(transport.Request())
    except errors.DefaultCredentialsError as error:
        file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        why = f"GOOGLE_APPLICATION_CREDENTIALS is no use ({_first_line(error)})" if file else "there are none"
        raise GoogleError(f"{why}; {LOGIN}") from None
    except errors.RefreshError as error:
        raise GoogleError(f"they are no longer valid ({_first_line(error)}); {LOGIN}") from None
    except errors.TransportError:
        raise GoogleError("there are some, but who gives tokens for them does not answer; try again online") from None
    return Account(transport.AuthorizedSession(credentials), str(getattr(credentials, "service_account_email", "")))


@dataclass(frozen=True)
class GoogleProject:
    """Every question raises GoogleError where there is no answer."""

    project: str
    account: Account

    def state(self) -> str:
        """ACTIVE, or what has become of it."""
        project = self._ask("GET", "cloudresourcemanager", f"/v1/projects/{self._id}")
        return str(project.get("lifecycleState", "unknown"))

    def enabled_services(self) -> set[str]:
        """Without .googleapis.com."""
        enabled, token = set[str](), ""
        while True:
            path = f"/v1/projects/{self._id}/services?filter=state:ENABLED&pageSize=200&pageToken={quote(token)}"
            page = self._ask("GET", "serviceusage", path)
            for service in cast(list[dict[str, Any]], page.get("services") or []):
                enabled.add(str(service["name"]).rpartition("/")[2].removesuffix(".googleapis.com"))
            token = str(page.get("nextPageToken") or "")
            if not token:
                return enabled

    def granted(self, permissions: tuple[str, ...]) -> set[str]:
        """Those of the permissions that the account has on the project."""
        path = f"/v1/projects/{self._id}:testIamPermissions"
        return set(
            self._ask("POST", "cloudresourcemanager", path, {"permissions": permissions}).get("permissions") or ()
        )

    def granted_on_billing_account(self, billing_account: str, permissions: tuple[str, ...]) -> set[str]:
        """As granted, of a billing account like 012345-6789AB-CDEF01."""
        path = f"/v1/billingAccounts/{quote(billing_account, safe='')}:testIamPermissions"
        answer = self._ask("POST", "cloudbilling", path, {"permissions": permissions})
        return set(answer.get("permissions") or ())

    def quota(self, service: str, name: str, place: str, dimensions: Mapping[str, str] | None = None) -> int | None:
        """How much of a quota the project has in a zone or region; -1 is no limit, None is not told.

        service: without .googleapis.com. dimensions: what else the quota is counted by, like tpu_family: CT6E. Of the
        lines that fit, the one with most dimensions counts; a line of another family never fits. Cloud Quotas,
        projects.locations.services.quotaInfos.get.
        """
        path = f"/v1/projects/{self._id}/locations/global/services/{service}.googleapis.com/quotaInfos/{quote(name)}"
        rows = cast(list[dict[str, Any]], self._ask("GET", "cloudquotas", path).get("dimensionsInfos") or [])
        told: dict[int, int] = {}  # by how much a line says of what is asked for
        for row in rows:
            said: dict[str, str] = row.get("dimensions") or {}
            here = place in said.values() or place in (row.get("applicableLocations") or [])
            others = {key for key, value in said.items() if value not in (place, (dimensions or {}).get(key))}
            if here and not others and row.get("details"):
                told.setdefault(len(said), int(row["details"]["value"]))
        return told[max(told)] if told else None

    def bucket_location(self, bucket: str) -> str:
        """As the API spells it: `US-CENTRAL1`, `US`."""
        fields = self._ask("GET", "storage", f"/storage/v1/b/{quote(bucket, safe='')}?fields=location")
        return str(fields["location"])

    def roles_on_bucket(self, bucket: str, member: str) -> set[str]:
        """Those that the bucket's own policy gives to a member, like serviceAccount:<e-mail>."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/iam"
        bindings = cast(
            list[dict[str, Any]], self._ask("GET", "storage", path, role=_READS_POLICY).get("bindings") or []
        )
        return {str(each["role"]) for each in bindings if member in each.get("members", ())}

    def reserved_machine(self, reservation: str) -> str:
        """The machine type of a reservation, by its full name; empty where it is of none."""
        found = self._ask("GET", "compute", f"/compute/v1/{quote(reservation)}")
        reserved: dict[str, Any] = found.get("specificReservation") or {}
        properties: dict[str, Any] = reserved.get("instanceProperties") or {}
        return str(properties.get("machineType", ""))

    @property
    def _id(self) -> str:
        return quote(self.project, safe="")  # a domain-scoped one has a ':', which paths use for verbs

    def _ask(
        self, method: str, api: str, path: str, body: dict[str, Any] | None = None, role: str = ""
    ) -> dict[str, Any]:
        """role: that lets ask it, where it is another than the API's."""
        errors, requests = map(import_module, ("google.auth.exceptions", "requests"))
        base = os.environ.get(emulated.QUESTIONS) or f"https://{api}.googleapis.com"
        try:
            answer = self.account.session.request(method, base + path, json=body, timeout=TIMEOUT_S)
        except (requests.RequestException, errors.GoogleAuthError) as error:
            raise GoogleError(f"{api}.googleapis.com does not answer ({type(error).__name__})") from None
        if answer.status_code == 200:
            return cast(dict[str, Any], answer.json())
        raise GoogleError(self._sentence(api, answer, role or _ROLES[api]), answer.status_code)

    def _sentence(self, api: str, answer: Any, role: str) -> str:
        try:
            error = cast(dict[str, Any], answer.json()["error"])
        except (ValueError, KeyError, TypeError):
            error = {}
        details = cast(list[dict[str, Any]], error.get("details") or [])
        if any(detail.get("reason") == "SERVICE_DISABLED" for detail in details):
            enable = f"gcloud services enable {api}.googleapis.com --project {self.project}"
            return f"{api}.googleapis.com is not enabled, so it does not tell; run: {enable}"
        message = str(error.get("message") or answer.reason).strip().splitlines()[0]
        said = f"{api}.googleapis.com answers {answer.status_code}: {message[:200]}"
        return advised(said, answer.status_code, role)


def _first_line(error: BaseException) -> str:
    first = error.args[0] if error.args else error
    return str(first).strip().splitlines()[0][:160]
