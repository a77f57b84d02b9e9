"""The emulated Vertex AI as an HTTP server: `with VertexApi() as api: ... api.url, api.cloud, api.fail(...)`.

One server is all regions: real ones have a host each, and every path names its region too. Owns which request is which
call. Refuses to own what a call means (job_calls.py), what every emulated API does with one
(infra/emulators/rpc_emulator.py) and what scripts and the page do (vertex_levers.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from infra.emulators.call_faults import Fault, FaultKind
from infra.emulators.rpc_emulator import Routed, RpcEmulator, RpcHandler
from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages, vertex_levers
from infra.emulators.vertex_jobs.job_calls import JobCalls
from infra.emulators.vertex_jobs.job_cloud import JobCloud

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


class VertexApi(RpcEmulator):
    """Context manager around the server. page_size: no page is longer. The others are of RpcEmulator."""

    rpcs = frozenset(route.rpc for route in ROUTES)
    paths = r"/(v\d|ui/)"
    levers = vertex_levers.LEVERS
    page = Path(__file__).with_name("page.html")

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
        super().__init__(RpcHandler, port=port, token=token, speed=speed, seconds_per_call=seconds_per_call)

    def close(self) -> None:
        super().close()
        self.cloud.replicas.close()

    @property
    def now_s(self) -> float:
        return self.cloud.now_s

    def _pass(self, seconds: float) -> None:
        self.cloud.advance(seconds)
        self.job_calls.settle()

    def _routed(self, method: str, path: str) -> Routed | None:
        for route in ROUTES:
            if route.method == method and (matched := re.fullmatch(route.path, path)):
                name = unquote(matched[1])
                act = partial(self._answer, route, name)
                return Routed(route.rpc, route.makes_operation, act, _too_many, partial(_denied, route, name))
        return None

    def _answer(self, route: JobRoute, name: str, query: str, body: Any, fault: Fault | None) -> bytes:
        shown = self._act(route, name, query, body, fault)
        if not route.answers_json:
            numeric = any("enum-encoding=int" in value for value in parse_qs(query).get("$alt", []))
            shown = job_messages.plain(shown, numeric)
        return json.dumps(shown, indent=2).encode()

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


def _denied(route: JobRoute, name: str) -> RpcError:
    sentence = f"Permission 'aiplatform.{route.permission}' denied on resource '//aiplatform.googleapis.com/{name}' "
    return RpcError(Code.PERMISSION_DENIED, f"{sentence}(or it may not exist).")


def _too_many() -> RpcError:
    metric = "'aiplatform.googleapis.com/default' and limit 'Requests per minute' of service"
    sentence = f"Quota exceeded for quota metric {metric} 'aiplatform.googleapis.com'."
    return RpcError(Code.RESOURCE_EXHAUSTED, sentence)
