"""What containers of a custom job have printed, and what the service says of it, as Cloud Logging has them.

Owns the question and its pages. Filters are those of gcloud's own `ai custom-jobs stream-logs`: a replica is a task of
resource `ml_job`, and the service is one too. Not run against Google's own service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from infra import emulated
from infra.google_cloud import retries
from infra.google_cloud.api import GoogleApi
from infra.google_cloud.api_errors import UnreadableError
from infra.providers.resource import Context

_API = GoogleApi("Cloud Logging", "logging.googleapis.com", emulated.VERTEX, "roles/logging.viewer")
_PAGE = 1000
SERVICE = "service"  # the task of what the service says itself


@dataclass(frozen=True)
class LogEntry:
    identifier: str
    time: str  # RFC 3339
    text: str


def replica(index: int) -> str:
    """The task of a host: the first is the master, in a pool of its own."""
    return "workerpool0-0" if index == 0 else f"workerpool1-{index - 1}"


def entries(context: Context, project: str, job: str, task: str, since: str = "") -> Iterator[LogEntry]:
    """Oldest first. job: its number. since: a time; entries of that time come again."""
    terms = ['resource.type="ml_job"', f'resource.labels.job_id="{job}"', f'resource.labels.task_name="{task}"']
    terms += [f'timestamp>="{since}"'] if since else []
    asked: dict[str, Any] = {"filter": " AND ".join(terms), "orderBy": "timestamp asc"}
    yield from _pages(context, project, asked | {"pageSize": _PAGE})


def newest(context: Context, project: str, job: str, task: str) -> LogEntry | None:
    """None where there is none yet."""
    terms = ('resource.type="ml_job"', f'resource.labels.job_id="{job}"', f'resource.labels.task_name="{task}"')
    asked = {"filter": " AND ".join(terms), "orderBy": "timestamp desc", "pageSize": 1}
    return next(_pages(context, project, asked), None)


def _pages(context: Context, project: str, asked: Mapping[str, Any]) -> Iterator[LogEntry]:
    token = ""
    while True:
        body = {"resourceNames": [f"projects/{project}"], **asked} | ({"pageToken": token} if token else {})
        page: dict[str, Any] = retries.call(
            context,
            _API,
            f"read logs of {project}",
            lambda: _object(_API.send("POST", "v2/entries:list", body=body)),  # noqa: B023
        )
        yield from map(_entry, cast(list[dict[str, Any]], page.get("entries") or []))
        token = str(page.get("nextPageToken") or "")
        if not token:
            return


def _object(response: Any) -> dict[str, Any]:
    try:
        value: object = response.json()
    except ValueError:
        raise UnreadableError from None
    if not isinstance(value, dict):
        raise UnreadableError
    return cast(dict[str, Any], value)


def _entry(value: Mapping[str, Any]) -> LogEntry:
    payload: Mapping[str, Any] = value.get("jsonPayload") or {}
    text = payload.get("message", value.get("textPayload", ""))
    return LogEntry(str(value.get("insertId", "")), str(value.get("timestamp", "")), str(text).rstrip("\n"))
