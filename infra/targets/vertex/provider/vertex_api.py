"""The calls of Vertex AI's API that our resources make: custom jobs, in one region at a time.

Owns which calls there are, and what only this API says. Refuses to own what a call means for a resource
(vertex_jobs.py), and retries and errors, which are the same for every API of Google (infra/google_cloud/). Calls go
over Google's credentials and HTTP, but not its client (docs/architecture.md, "What is ours although a library exists").
Not run against Google's own service.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast
from urllib.parse import quote

from infra import emulated
from infra.google_cloud import retries
from infra.google_cloud.api import GoogleApi
from infra.google_cloud.api_errors import BusyError, ClosedError, FullError, GoneError, UnreadableError
from infra.providers.resource import Context, ResourceError

_HOST = "aiplatform.googleapis.com"
_PAGE = 100
_STATE = "JOB_STATE_"


class NotEnabledError(ResourceError):
    """The project does not use Vertex AI, so nothing of it is there."""


def _own_error(code: int, message: str, sentence: str) -> ResourceError | None:
    """Quota and regions are told in words alone: a 429 of too many calls a minute has others.

    Sentences are from reports of users (docs/a3.md).
    """
    if code == 403 and re.search(r"has not been used in project|it is disabled", message):
        return NotEnabledError(sentence)
    if code == 429 and "quota metrics exceed" in message:
        return FullError(f"{sentence} Ask for more in the console (IAM, Quotas), or give another region")
    if code == 400 and re.search(r"Machine type \S+ is not supported|not (supported|available) in", message):
        return FullError(f"{sentence} Give another region")
    if code == 403 and "denied on 'locations/" in message:
        return ClosedError(f"{sentence} Give another region")
    if code == 400 and "permission to act as service_account" in message:
        return ResourceError(f"{sentence} Have roles/iam.serviceAccountUser granted on that account")
    return None


API = GoogleApi("Vertex AI", _HOST, emulated.VERTEX, "roles/aiplatform.user", _own_error)


@dataclass(frozen=True)
class CustomJob:
    """`name` as the API writes it, with the project's number or its id. `state` without JOB_STATE_; times as RFC 3339.

    code, message: why it has ended, where the API says it. spec: its jobSpec.
    """

    name: str
    display_name: str
    state: str
    labels: Mapping[str, str]
    create_time: str
    start_time: str = ""
    end_time: str = ""
    code: int = 0
    message: str = ""
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @property
    def region(self) -> str:
        return region_of(self.name)

    @property
    def number(self) -> str:
        """Its id, which no other job of the region has."""
        return self.name.rpartition("/")[2]

    @property
    def made_at(self) -> datetime:
        return datetime.fromisoformat(self.create_time)


def region_of(name: str) -> str:
    """Of a job's name, or of its parent's."""
    return name.split("/")[3]


# --- calls ---


def create(context: Context, parent: str, body: Mapping[str, Any]) -> CustomJob:
    """Make a job. The API knows no id of the caller's, so a call whose answer is lost is not repeated.

    Raises SilentError where nobody knows whether there is one now, FullError where the region cannot have it.
    """
    doing = f"create a custom job in {region_of(parent)}"
    return retries.call(
        context, API, doing, lambda: _job(_send("POST", f"{parent}/customJobs", body=body)), repeatable=False
    )


def get(context: Context, name: str) -> CustomJob | None:
    with contextlib.suppress(GoneError, NotEnabledError):
        return retries.call(context, API, f"read {name}", lambda: _named(_job(_send("GET", name)), name))
    return None


def listed(context: Context, parent: str, display_name: str = "") -> list[CustomJob]:
    """Jobs of a region, all or those of that name. An empty answer and one that says nothing read the same: ask twice.

    Filtered by name and not by label: the API's page writes labels of letters alone, and ours have '-'.
    """
    doing = f"list the custom jobs of {parent}"

    def act() -> list[CustomJob]:
        found: list[CustomJob] = []
        token = ""
        while True:
            query = {"pageSize": str(_PAGE)}
            query |= {"filter": f'display_name="{display_name}"'} if display_name else {}
            query |= {"pageToken": token} if token else {}
            page = _send("GET", f"{parent}/customJobs", query)
            found += [_job(each) for each in cast(list[dict[str, Any]], page.get("customJobs") or [])]
            token = str(page.get("nextPageToken") or "")
            if not token:
                return found

    with contextlib.suppress(NotEnabledError):
        return retries.call(context, API, doing, act)
    return []


def cancel(context: Context, name: str) -> None:
    """Ask that it ends. One that has ended or is gone is fine."""
    with contextlib.suppress(GoneError, BusyError):
        retries.call(context, API, f"cancel {name}", lambda: _send("POST", f"{name}:cancel", body={}))


def delete(context: Context, name: str) -> None:
    """Begin to delete one that has ended. What is gone already is fine, and so is one that has not ended yet."""
    with contextlib.suppress(GoneError, BusyError):
        retries.call(context, API, f"delete {name}", lambda: _send("DELETE", name))


# --- how a call is made ---


@cache
def _of_region(region: str) -> GoogleApi:
    """Each region is a server of its own; what stands in for Google is one for all."""
    return dataclasses.replace(API, host=f"{region}-{_HOST}")


def _send(method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
    response = _of_region(region_of(path)).send(method, f"v1/{quote(path, safe='/:')}", query, body)
    try:
        value: object = response.json()
    except ValueError:
        raise UnreadableError from None
    if not isinstance(value, dict):
        raise UnreadableError
    return cast(dict[str, Any], value)


def _job(value: Mapping[str, Any]) -> CustomJob:
    try:
        error: Mapping[str, Any] = value.get("error") or {}
        labels: Mapping[str, str] = value.get("labels") or {}
        return CustomJob(
            name=str(value["name"]),
            display_name=str(value.get("displayName", "")),
            state=str(value["state"]).removeprefix(_STATE),
            labels=dict(labels),
            create_time=str(value["createTime"]),
            start_time=str(value.get("startTime", "")),
            end_time=str(value.get("endTime", "")),
            code=int(error.get("code", 0)),
            message=str(error.get("message", "")),
            spec=value.get("jobSpec") or {},
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnreadableError from None


def _named(job: CustomJob, name: str) -> CustomJob:
    """Without the project, which the API writes as the id in one place and as the number in another."""
    if job.name.split("/")[2:] != name.split("/")[2:]:
        raise UnreadableError
    return job
