"""Cloud Logging as far as custom jobs need it: what the service and its containers wrote, and `entries:list`.

Seen: resource type ml_job with job_id and task_name, the text in jsonPayload.message, the task "service" for what the
service says itself; gcloud's `stream-logs` asks so. Our choice: log names, and that stderr has the severity ERROR.
Owns the entries and their filters. Refuses to own the rest of Cloud Logging (infra/emulators/host_services.py takes
what hosts write).
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any, cast

from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages, list_filters
from infra.emulators.vertex_jobs.job_records import EmulatedJob, Region
from infra.emulators.vertex_jobs.list_filters import COMPARES, Test

_SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_MOST_ENTRIES, _PAGE = 100_000, 50
_FIELDS = {"filter", "orderBy", "pageSize", "pageToken", "resourceNames", "projectIds"}
_LABELS = "resource.labels."


@dataclass(frozen=True)
class LogLine:
    """number: in the order in which they came, from 1."""

    number: int
    project: str  # its number
    job: str
    task: str
    severity: str
    text: str
    time_s: float

    @property
    def labels(self) -> dict[str, str]:
        return {"job_id": self.job, "project_id": self.project, "task_name": self.task}

    def text_of(self, name: str) -> str:
        """Of a field by its path; "" of one that it has not."""
        texts = {"resource.type": "ml_job", "logName": f"projects/{self.project}/logs/{self.task}"}
        return (texts | {f"{_LABELS}{label}": value for label, value in self.labels.items()}).get(name, "")

    def to_json(self) -> dict[str, Any]:
        """A LogEntry. A line that is a JSON object with a message is the payload itself."""
        plain = {"message": self.text, "levelname": self.severity, "attrs": {"tag": self.task}}
        time = job_messages.time_text(self.time_s)
        return {
            "insertId": f"{self.number:016x}",
            "logName": self.text_of("logName"),
            "resource": {"type": "ml_job", "labels": self.labels},
            "labels": {f"ml.googleapis.com/{name}": self.labels[name] for name in ("job_id", "task_name")},
            "severity": self.severity,
            "timestamp": time,
            "receiveTimestamp": time,
            "jsonPayload": _structured(self.text) or plain,
        }


def _structured(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text) if text.startswith("{") else None
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) and "message" in value else {}


@dataclass
class JobLog:
    """Lines of all jobs, deleted ones too."""

    lines: list[LogLine] = field(default_factory=list[LogLine])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, job: EmulatedJob, task: str, severity: str, text: str, now_s: float) -> None:
        with self._lock:
            number = self.lines[-1].number + 1 if self.lines else 1
            self.lines.append(LogLine(number, job.region.project, job.id, task, severity, text, now_s))
            del self.lines[:-_MOST_ENTRIES]

    def list(self, request: Any) -> dict[str, Any]:
        """Answers entries:list. Raises RpcError."""
        request = request or {}
        if unknown := sorted(set(request) - _FIELDS):
            sentence = f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot find field.'
            raise RpcError(Code.INVALID_ARGUMENT, sentence)
        names = [*request.get("resourceNames", []), *(f"projects/{each}" for each in request.get("projectIds", []))]
        projects = {Region.of(f"{name}/locations/-").project for name in names}
        test = list_filters.compiled(request.get("filter", ""), _term)
        order = request.get("orderBy") or "timestamp asc"
        if order not in ("timestamp asc", "timestamp desc"):
            raise RpcError(Code.INVALID_ARGUMENT, f"orderBy {order!r} is not timestamp asc or timestamp desc.")
        with self._lock:
            found = [line for line in self.lines if line.project in projects and test(line)]
        found.sort(key=lambda line: (line.time_s, line.number), reverse=order.endswith("desc"))
        start, size = int(request.get("pageToken") or 0), int(request.get("pageSize") or _PAGE)
        answer: dict[str, Any] = {}
        if page := found[start : start + size]:
            answer["entries"] = [line.to_json() for line in page]
        if len(found) > start + size:
            answer["nextPageToken"] = str(start + size)
        return answer


def _term(name: str, sign: str, value: str) -> Test[LogLine]:
    if name == "timestamp" and sign in COMPARES:
        seconds = job_messages.seconds_of_text(value)
        return lambda line: COMPARES[sign](round(line.time_s, 6), seconds)
    if name == "severity" and sign in COMPARES and value.upper() in _SEVERITIES:
        level = _SEVERITIES.index(value.upper())
        return lambda line: COMPARES[sign](_SEVERITIES.index(line.severity), level)
    if name == "insertId" and sign in COMPARES:
        return lambda line: _compares_text(sign, f"{line.number:016x}", value)
    if sign not in ("=", "!=", ":") or not (name in ("resource.type", "logName") or name.startswith(_LABELS)):
        raise ValueError(f"{name} {sign} is not supported")
    return lambda line: _matches(sign, line.text_of(name), value)


def _matches(sign: str, held: str, value: str) -> bool:
    return value in held if sign == ":" else (held == value) == (sign == "=")


def _compares_text(sign: str, held: str, value: str) -> bool:
    order = (held > value) - (held < value)
    return COMPARES[sign](order, 0)
