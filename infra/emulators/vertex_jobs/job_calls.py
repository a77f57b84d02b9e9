"""The calls of Vertex AI's JobService that concern custom jobs, and of operations: JSON in, JSON out.

Seen: a job beyond the quota is refused by the create itself; an account that the caller may not act as, too. Our
choice: the words and codes of refusals of a delete and a cancel, a list's order (newest first) and its default page.
Owns what each call means, pages and names. Refuses to own HTTP (vertex_server.py) and what happens later
(job_cloud.py).
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from infra.emulators.rpc_errors import Code, RpcError, RpcStatus
from infra.emulators.vertex_jobs import job_checks, job_messages, list_filters, machines
from infra.emulators.vertex_jobs.job_cloud import JobCloud
from infra.emulators.vertex_jobs.job_records import ENDED, EmulatedJob, Region

_DEFAULT_PAGE = 100
_FAILED = RpcStatus(Code.INTERNAL.number, "An internal error has occurred (a fault of the emulator).")


@dataclass
class JobOperation:
    """Of a delete. action: what is done once `done_s` has come; None where nothing is."""

    name: str
    create_s: float
    done_s: float
    action: Callable[[], None] | None = None
    failure: RpcStatus | None = None


@dataclass
class JobCalls:
    """`max_page` caps every page. refused_accounts: service accounts that the caller may not act as."""

    cloud: JobCloud
    max_page: int = 1000
    operations: dict[str, JobOperation] = field(default_factory=dict[str, JobOperation])
    refused_accounts: set[str] = field(default_factory=set[str])
    closed_regions: set[str] = field(default_factory=set[str])
    new_id: Callable[[], str] = lambda: str(random.SystemRandom().randrange(10**18, 9 * 10**18))

    def check_region(self, name: str) -> None:
        """Refuses every call in a region that is not one of Vertex AI's, or is closed."""
        region = Region.of(name)
        if region.name not in machines.REGIONS or region.name in self.closed_regions:
            sentence = f"Permission denied on 'locations/{region.name}' (or it may not exist)."
            raise RpcError(Code.PERMISSION_DENIED, sentence)

    def create(self, parent: str, query: dict[str, str], body: Any) -> Any:
        region = Region.of(parent)
        message = job_checks.checked(region, job_messages.parse("CustomJob", body or {}, "custom_job"))
        now_s = self.cloud.now_s
        job = EmulatedJob(region, parent.split("/")[1], self.new_id(), message, now_s, update_s=now_s)
        account = message.job_spec.service_account
        if account in self.refused_accounts:
            said = f"You do not have permission to act as service_account: {account}. (or it may not exist)."
            raise RpcError(Code.INVALID_ARGUMENT, said)
        if over := self.cloud.stock.never_fits(job):
            metrics = ", ".join(f"{machines.METRIC_DOMAIN}/{metric}" for metric in over)
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"The following quota metrics exceed quota limits: {metrics}")
        self.cloud.add(job)
        return self._view(job)

    def get(self, name: str, query: dict[str, str], body: Any) -> Any:
        return self._view(self._job(name))

    def list(self, parent: str, query: dict[str, str], body: Any) -> Any:
        region, test = Region.of(parent), list_filters.of_jobs(query.get("filter", ""))
        youngest_s = self.cloud.now_s - self.cloud.behaviour.listed_after_s
        jobs = [job for job in self.cloud.jobs.values() if job.region == region and job.create_s <= youngest_s]
        jobs.sort(key=_order)
        after = _from_token(query.get("page_token", ""))
        rest = [job for job in jobs if test(job) and (after is None or _order(job) > after)]
        size = min(_page_size(query.get("page_size", "")) or _DEFAULT_PAGE, self.max_page)
        response = job_messages.new("ListCustomJobsResponse")
        for job in rest[:size]:
            view = self._view(job)
            response.custom_jobs.append(job_messages.masked(view, mask) if (mask := query.get("read_mask")) else view)
        if len(rest) > size:
            response.next_page_token = _token(rest[size - 1])
        return response

    def delete(self, name: str, query: dict[str, str], body: Any) -> Any:
        job = self._job(name)
        if job.state not in ENDED:
            sentence = f"The CustomJob {job.name} is in state {job.state} and cannot be deleted; cancel it first."
            raise RpcError(Code.FAILED_PRECONDITION, sentence)
        return self._shown(self._operation(job, lambda: self._remove(job)))

    def cancel(self, name: str, query: dict[str, str], body: Any) -> Any:
        job = self._job(name)
        if body:
            job_messages.parse("CancelCustomJobRequest", body, "request")
        if job.state in ENDED and self.cloud.behaviour.ended_jobs_refuse_cancel:
            sentence = f"The CustomJob {job.name} is in state {job.state} and cannot be cancelled."
            raise RpcError(Code.FAILED_PRECONDITION, sentence)
        self.cloud.cancel(job)
        return {}

    def list_entries(self, name: str, query: dict[str, str], body: Any) -> Any:
        """Of Cloud Logging, which is another service at Google."""
        return self.cloud.log.list(body)

    # --- operations ---

    def get_operation(self, name: str, query: dict[str, str], body: Any) -> Any:
        return self._shown(self._find_operation(name))

    def delete_operation(self, name: str, query: dict[str, str], body: Any) -> Any:
        del self.operations[self._find_operation(name).name]
        return {}

    def fail_delete(self, name: str) -> Any:
        """A fault: nothing is done, and the operation says that it failed."""
        operation = self._operation(self._job(name), None)
        operation.failure = _FAILED
        return self._shown(operation)

    def fail_after(self, shown: Any) -> Any:
        """A fault: all is done, and the operation says that it failed."""
        operation = self.operations[shown["name"]]
        operation.failure = _FAILED
        return self._shown(operation)

    def hold(self, shown: Any, seconds: float) -> Any:
        """A fault: what it does is done, and it says so that many seconds later."""
        operation = self.operations[shown["name"]]
        self._act(operation)
        operation.done_s = self.cloud.now_s + seconds
        return self._shown(operation)

    def settle(self) -> None:
        """What operations that are due do is done."""
        for operation in list(self.operations.values()):
            if operation.done_s <= self.cloud.now_s:
                self._act(operation)

    def _act(self, operation: JobOperation) -> None:
        action, operation.action = operation.action, None
        if action:
            action()

    def _operation(self, job: EmulatedJob, action: Callable[[], None] | None) -> JobOperation:
        name = f"{job.region.parent}/operations/{self.new_id()}"
        now_s = self.cloud.now_s
        operation = self.operations[name] = JobOperation(name, now_s, now_s + self.cloud.timings.delete_s, action)
        return operation

    def _find_operation(self, name: str) -> JobOperation:
        self.settle()
        parts = name.split("/")
        operation = self.operations.get(f"{Region.of(name).parent}/operations/{parts[-1]}")
        if operation is None:
            raise RpcError(Code.NOT_FOUND, f"Operation {name} was not found.")
        return operation

    def _shown(self, operation: JobOperation) -> dict[str, Any]:
        self.settle()
        times = {"createTime": job_messages.time_text(operation.create_s)}
        times["updateTime"] = job_messages.time_text(min(operation.done_s, self.cloud.now_s))
        kind = f"type.googleapis.com/{job_messages.PACKAGE}.DeleteOperationMetadata"
        shown: dict[str, Any] = {"name": operation.name, "metadata": {"@type": kind, "genericMetadata": times}}
        if operation.done_s > self.cloud.now_s and not operation.failure:
            return shown
        if operation.failure:
            return shown | {"done": True, "error": vars(operation.failure)}
        return shown | {"done": True, "response": {"@type": "type.googleapis.com/google.protobuf.Empty"}}

    # --- parts ---

    def _remove(self, job: EmulatedJob) -> None:
        if job.name in self.cloud.jobs:
            self.cloud.remove(job)

    def _job(self, name: str) -> EmulatedJob:
        self.settle()
        job = self.cloud.jobs.get(f"{Region.of(name).parent}/customJobs/{name.split('/')[5]}")
        if job is None:
            raise RpcError(Code.NOT_FOUND, f"The CustomJob {name} is not found.")
        return job

    def _view(self, job: EmulatedJob) -> Any:
        return job.view(self.cloud.behaviour.project_numbers)


def _order(job: EmulatedJob) -> tuple[float, str]:
    """Newest first."""
    return -job.create_s, job.id


def _token(job: EmulatedJob) -> str:
    return base64.urlsafe_b64encode(f"{job.create_s!r} {job.id}".encode()).decode()


def _from_token(token: str) -> tuple[float, str] | None:
    """The place after which a page begins: a deletion between two pages skips nothing."""
    if not token:
        return None
    try:
        create_s, identifier = base64.urlsafe_b64decode(token).decode().split()
        return -float(create_s), identifier
    except ValueError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"page_token {token!r} is not a token of this service.") from error


def _page_size(text: str) -> int:
    if text and not re.fullmatch(r"\d+", text):
        raise RpcError(Code.INVALID_ARGUMENT, f"Invalid value at 'page_size' (TYPE_INT32), {text!r}")
    return int(text or 0)
