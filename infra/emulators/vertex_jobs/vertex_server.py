"""The emulated Vertex AI as an HTTP server: `with VertexApi() as api: ... api.url, api.cloud, api.fail(...)`.

One server is all regions: real ones have a host each, and every path names its region too. Owns which request is which
call, the list of calls, whether the clock runs. Refuses to own what a call means (job_calls.py), what a fault does to
one (infra/emulators/call_faults.py) and what scripts and the page do (vertex_levers.py).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from infra.emulators import call_faults
from infra.emulators.call_faults import JSON, Call, CutError, Fault, FaultKind
from infra.emulators.http_server import EmulatorHandler, HttpEmulator, next_fault
from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages, vertex_levers
from infra.emulators.vertex_jobs.job_calls import JobCalls
from infra.emulators.vertex_jobs.job_cloud import JobCloud

_MAX_CALLS = 5_000
# Of every Google API: https://cloud.google.com/apis/docs/system-parameters
_SYSTEM = {
    *("alt", "key", "fields", "prettyPrint", "quotaUser", "access_token", "oauth_token", "callback"),
    *("uploadType", "upload_protocol"),
}
_PLACE = "projects/[^/:]+/locations/[^/:]+"
_JOB = f"{_PLACE}/customJobs/[^/:]+"
# The client's REST transport asks for operations below /ui: google-cloud-aiplatform 2.7.0 does.
_OPERATION = f"/(?:v1|ui)/({_PLACE}(?:/customJobs/[^/:]+)?/operations/[^/:]+)"


@dataclass(frozen=True)
class JobRoute:
    """A call by its method and path, of which the one group is the call's parent or name."""

    rpc: str
    method: str
    path: str
    call: Callable[[JobCalls, str, dict[str, str], Any], Any]
    parameters: tuple[str, ...] = ()
    permission: str = ""
    makes_operation: bool = False

    @property
    def answers_json(self) -> bool:
        """Else with a message that is printed as the client asks for it."""
        return self.call not in (JobCalls.create, JobCalls.get, JobCalls.list)


ROUTES = (
    JobRoute("CreateCustomJob", "POST", f"/v1/({_PLACE})/customJobs", JobCalls.create, permission="customJobs.create"),
    JobRoute("GetCustomJob", "GET", f"/v1/({_JOB})", JobCalls.get, permission="customJobs.get"),
    JobRoute("ListCustomJobs", "GET", f"/v1/({_PLACE})/customJobs", JobCalls.list,
             ("filter", "page_size", "page_token", "read_mask"), permission="customJobs.list"),
    JobRoute("DeleteCustomJob", "DELETE", f"/v1/({_JOB})", JobCalls.delete, permission="customJobs.delete",
             makes_operation=True),
    JobRoute("CancelCustomJob", "POST", f"/v1/({_JOB}):cancel", JobCalls.cancel, permission="customJobs.cancel"),
    JobRoute("GetOperation", "GET", _OPERATION, JobCalls.get_operation, permission="operations.get"),
    JobRoute("WaitOperation", "POST", f"{_OPERATION}:wait", JobCalls.get_operation, ("timeout",),
             permission="operations.wait"),
    JobRoute("DeleteOperation", "DELETE", _OPERATION, JobCalls.delete_operation, permission="operations.delete"),
    JobRoute("ListLogEntries", "POST", "/v2/(entries):list", JobCalls.list_entries, permission="logEntries.list"),
)  # fmt: skip


class VertexApi(HttpEmulator):
    """Context manager around the server.

    port: 0 takes a free one. page_size: no page is longer. token: a bearer token that every call must carry.
    speed: the cloud's clock runs that much faster than real time; 0 stands still but for `advance`.
    seconds_per_call: each call moves the clock that far first, so that whoever polls sees time pass without waiting.
    """

    def __init__(
        self,
        cloud: JobCloud | None = None,
        *,
        port: int = 0,
        page_size: int = 1000,
        token: str | None = None,
        speed: float = 0,
        seconds_per_call: float = 0,
    ) -> None:
        self.cloud = cloud or JobCloud()
        self.job_calls = JobCalls(self.cloud, page_size)
        self.token = token
        self.speed = speed
        self.seconds_per_call = seconds_per_call
        self.lock = threading.RLock()
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self._ticked_s = time.monotonic()
        super().__init__(_Handler, port)

    def close(self) -> None:
        self.release_all()
        super().close()
        self.cloud.replicas.close()

    # --- what tests and scripts use ---

    def fail(self, kind: FaultKind, rpc: str = "", **fields: Any) -> Fault:
        """Adds a fault for the next calls that match. fields: of Fault. Raises ValueError for a call that is none."""
        if rpc and rpc not in (route.rpc for route in ROUTES):
            raise ValueError(f"{rpc} is not a call; calls: {', '.join(sorted(route.rpc for route in ROUTES))}")
        fault = Fault(kind, rpc, **fields)
        with self.lock:
            fault.number = max((other.number for other in self.faults), default=0) + 1
            self.faults.append(fault)
        return fault

    def release_all(self) -> None:
        for fault in self.faults:
            fault.release.set()

    def advance(self, seconds: float) -> None:
        with self.lock:
            self.tick()
            self._pass(seconds)

    def calls_of(self, rpc: str) -> list[Call]:
        with self.lock:
            return [call for call in self.calls if call.rpc == rpc]

    def tick(self) -> None:
        """Brings the cloud's clock up to now, if it runs, and looks at replicas. The lock is held."""
        now = time.monotonic()
        elapsed, self._ticked_s = now - self._ticked_s, now
        self._pass(elapsed * self.speed)

    def _pass(self, seconds: float) -> None:
        self.cloud.advance(seconds)
        self.job_calls.settle()

    # --- calls ---

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a call of the API. Raises CutError."""
        path, _, query = target.partition("?")
        routed = find(method, path)
        with self.lock:
            self.tick()
            self._pass(self.seconds_per_call)
            number = self.calls[-1].number + 1 if self.calls else 1
            call = Call(number, self.cloud.now_s, routed[0].rpc if routed else "", method, target)
            call.makes_operation = bool(routed and routed[0].makes_operation)
            self.calls.append(call)
            del self.calls[:-_MAX_CALLS]
            fault = next_fault(fault for fault in self.faults if fault.matches(call))
            call.fault = fault.kind.name if fault else ""
        try:
            if self.token is not None and authorization != f"Bearer {self.token}":
                raise _unauthenticated()
            if routed is None:
                raise _unknown(method, path)
            if fault:
                _disturb_before(fault, *routed)
            call.body = _json(body)
            with self.lock:
                numeric = any("enum-encoding=int" in value for value in parse_qs(query).get("$alt", []))
                shown = self._act(*routed, query, call.body, fault)
                shown = shown if routed[0].answers_json else job_messages.plain(shown, numeric)
            call.status, headers, content = call_faults.after(fault, json.dumps(shown, indent=2).encode())
        except RpcError as error:
            headers = call_faults.after_refusal(fault, error.code.http_status)
            call.status, call.error = error.code.http_status, error.message
            content = json.dumps(error.to_json()).encode()
        return call.status, {"Content-Type": JSON, **headers}, content

    def _act(self, route: JobRoute, name: str, query: str, body: Any, fault: Fault | None) -> Any:
        if "/locations/" in name:
            self.job_calls.check_region(name)
        kind = fault.kind if fault else None
        if kind is FaultKind.OPERATION_ERROR:
            return self.job_calls.fail_delete(name)
        shown = route.call(self.job_calls, name, _parameters(route, query), body)
        if kind is FaultKind.OPERATION_ERROR_AFTER:
            return self.job_calls.fail_after(shown)
        if fault and kind is FaultKind.SLOW_OPERATION:
            return self.job_calls.hold(shown, fault.delay_s)
        return shown


def find(method: str, path: str) -> tuple[JobRoute, str] | None:
    """The call of a request, and its parent or name."""
    for route in ROUTES:
        if route.method == method and (matched := re.fullmatch(route.path, path)):
            return route, unquote(matched[1])
    return None


def _parameters(route: JobRoute, query: str) -> dict[str, str]:
    """Those of the call, in snake case. Raises RpcError for any that it does not have."""
    parameters = dict[str, str]()
    for name, values in parse_qs(query, keep_blank_values=True).items():
        snake = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        if snake in route.parameters:
            parameters[snake] = values[-1]
        elif not name.startswith("$") and name not in _SYSTEM:
            sentence = f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
            raise RpcError(Code.INVALID_ARGUMENT, sentence)
    return parameters


def _disturb_before(fault: Fault, route: JobRoute, name: str) -> None:
    sentence = f"Permission 'aiplatform.{route.permission}' denied on resource '//aiplatform.googleapis.com/{name}' "
    denied = RpcError(Code.PERMISSION_DENIED, f"{sentence}(or it may not exist).")
    metric = "'aiplatform.googleapis.com/default' and limit 'Requests per minute' of service"
    too_many = f"Quota exceeded for quota metric {metric} 'aiplatform.googleapis.com'."
    call_faults.before(
        fault,
        too_many=RpcError(Code.RESOURCE_EXHAUSTED, too_many),
        denied=denied,
        unauthenticated=_unauthenticated(),
    )


def _unknown(method: str, path: str) -> RpcError:
    return RpcError(Code.NOT_FOUND, f"The emulator does not know {method} {path}.")


def _unauthenticated() -> RpcError:
    return RpcError(Code.UNAUTHENTICATED, "Request had invalid authentication credentials.")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}") from error


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: VertexApi = self.server.owner
        body = self.body()
        if re.match(r"/(v\d|ui/)", self.path):
            try:
                authorization = self.headers.get("Authorization") or ""
                status, headers, content = owner.answer(self.command, self.path, body, authorization)
            except CutError as cut:
                self._cut(cut.sent)
                return
        else:
            status, kind, content = vertex_levers.answer(owner, self.command, self.path, body)
            headers = {"Content-Type": kind}
        self.send(status, headers, content)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815 (http.server's names)

    def _cut(self, sent: bytes) -> None:
        self.close_connection = True
        self.wfile.write(sent)
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
