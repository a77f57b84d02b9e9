"""The emulator as an HTTP server: `with TpuApi() as api: ... api.url, api.cloud, api.fail(...)`.

Owns the list of calls and whether the clock runs. Refuses to own what a call means
(service.py), what a fault does to one (infra/emulators/call_faults.py) and what scripts and the page do (control.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

from infra.emulators import call_faults
from infra.emulators.call_faults import JSON, Call, CutError, Fault, FaultKind
from infra.emulators.http_server import EmulatorHandler, HttpEmulator, next_fault
from infra.emulators.rpc_errors import RpcError
from infra.emulators.tpu_api import control, errors, messages, routes
from infra.emulators.tpu_api.checks import project_number
from infra.emulators.tpu_api.cloud import Cloud
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.extras import Shown
from infra.emulators.tpu_api.routes import Route
from infra.emulators.tpu_api.service import Service

_MAX_CALLS = 5_000


class TpuApi(HttpEmulator):
    """Context manager around the server.

    port: 0 takes a free one. page_size: no page is longer. token: a bearer token that every call must carry.
    speed: the cloud's clock runs that much faster than real time; 0 stands still but for `cloud.transitions.advance`.
    seconds_per_call: each call moves the clock that far first, so that whoever polls sees time pass without waiting.
    state: a file that keeps the cloud across starts.
    """

    def __init__(
        self,
        cloud: Cloud | None = None,
        *,
        port: int = 0,
        page_size: int = 1000,
        token: str | None = None,
        speed: float = 0,
        seconds_per_call: float = 0,
        state: Path | None = None,
    ) -> None:
        self.cloud = cloud or Cloud()
        self.service = Service(self.cloud, page_size)
        self.token = token
        self.speed = speed
        self.seconds_per_call = seconds_per_call
        self.lock = threading.RLock()
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self._state = state
        self._saved: int | None = None
        self._ticked_s = time.monotonic()
        if state and state.exists():
            self.cloud.ledger.restore(json.loads(state.read_text(encoding="utf-8")))
            self.cloud.transitions.advance(max(0.0, time.time() - self.cloud.ledger.now_s) if speed else 0)
        super().__init__(_Handler, port)

    def close(self) -> None:
        self.release_all()
        super().close()
        self.save()

    # --- what tests and scripts use ---

    def fail(self, kind: FaultKind, rpc: str = "", **fields: Any) -> Fault:
        """Adds a fault for the next calls that match. fields: of Fault. Raises ValueError for a call that is none."""
        fault = Fault(kind, rpc, **fields)
        if rpc and rpc not in (route.rpc for route in routes.ROUTES):
            raise ValueError(f"{rpc} is not a call; calls: {', '.join(sorted(route.rpc for route in routes.ROUTES))}")
        if fault.method not in ("", "GET", "POST", "PATCH", "DELETE"):
            raise ValueError(f"{fault.method} is not a method of a call; methods: GET, POST, PATCH, DELETE")
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
            self.cloud.transitions.advance(seconds)

    def calls_of(self, rpc: str) -> list[Call]:
        with self.lock:
            return [call for call in self.calls if call.rpc == rpc]

    def tick(self) -> None:
        """Brings the cloud's clock up to now, if it runs. The lock is held."""
        now = time.monotonic()
        elapsed, self._ticked_s = now - self._ticked_s, now
        self.cloud.transitions.advance(elapsed * self.speed)

    def save(self) -> None:
        """Writes the state file if anything has happened since."""
        with self.lock:
            if self._state is None or self._saved == self.cloud.ledger.revision:
                return
            self._saved = self.cloud.ledger.revision
            partial = self._state.with_name(f"{self._state.name}.{os.getpid()}.partial")
            partial.write_text(json.dumps(self.cloud.ledger.snapshot()), encoding="utf-8")
            partial.replace(self._state)

    # --- calls ---

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a call of the API. Raises CutError."""
        path, _, query = target.partition("?")
        routed = routes.find(method, path)
        with self.lock:
            self.tick()
            self.cloud.transitions.advance(self.seconds_per_call)
            number = self.calls[-1].number + 1 if self.calls else 1
            route = routed[0] if routed else None
            call = Call(number, self.cloud.ledger.now_s, route.rpc if route else "", method, target)
            call.makes_operation = bool(route and route.makes_operation)
            self.calls.append(call)
            del self.calls[:-_MAX_CALLS]
            fault = next_fault(fault for fault in self.faults if fault.matches(call))
            call.fault = fault.kind.name if fault else ""
        try:
            if self.token is not None and authorization != f"Bearer {self.token}":
                raise _unauthenticated()
            if routed is None:
                raise _unknown(method, path)
            _before(fault, routed[0], routed[1])
            call.body = _json(body)
            with self.lock:
                message = self._act(routed, query, call.body, fault)
                ledger = self.cloud.ledger
                extras = Shown(routed[2], ledger.requests, ledger.nodes, ledger.behaviour.extras_in_operations)
                shown = extras.add(messages.plain(message, routes.wants_numeric_enums(query)))
                content = json.dumps(shown, separators=(",", ":")).encode()
            call.status, headers, content = call_faults.after(fault, content)
        except RpcError as error:
            headers = call_faults.after_refusal(fault, error.code.http_status)
            call.status, call.error = error.code.http_status, error.message
            content = json.dumps(error.to_json()).encode()
        finally:
            self.save()
        return call.status, {"Content-Type": JSON, **headers}, content

    def _act(self, routed: tuple[Route, dict[str, str], str], query: str, body: Any, fault: Fault | None) -> Any:
        route, fields, version = routed
        body, beyond_v2 = routes.without_extras(route, body, version)
        fields = {field: self.cloud.ledger.by_id(name) for field, name in fields.items()}
        self.service.check_location(*fields.values())
        request = routes.request_message(route, fields, query, body)
        kind = fault.kind if fault else None
        failure = RpcStatus(Code.INTERNAL.number, "An internal error has occurred (a fault of the emulator).")
        if kind is FaultKind.OPERATION_ERROR:
            return self.service.refuse_in_operation(route.rpc, route.verb, request, failure)
        message = route.call(self.service, request, beyond_v2) if beyond_v2 else route.call(self.service, request)
        if kind is FaultKind.OPERATION_ERROR_AFTER:
            return self.service.end_in_error(message, failure)
        if fault and kind is FaultKind.SLOW_OPERATION:
            return self.service.hold(message, fault.delay_s)
        return message


def _before(fault: Fault | None, route: Route, fields: dict[str, str]) -> None:
    """Carries out a fault that comes before the call has an effect. Raises RpcError or CutError."""
    if fault:
        place = next(iter(fields.values()))
        too_many = errors.too_many_calls(project_number(place.split("/")[1]))
        call_faults.before(fault, too_many=too_many, denied=_denied(route, place), unauthenticated=_unauthenticated())


def _denied(route: Route, place: str) -> ApiError:
    """A refusal as Google's IAM words it."""
    verb = route.verb if route.verb != "reset" else "update"
    kind = "nodes" if "Node" in route.rpc or "Guest" in route.rpc else "queuedResources"
    kind = next((word for word in ("operations", "locations") if word[:-1].title() in route.rpc), kind)
    permission = f"tpu.{kind}.{verb}"
    message = f"Permission '{permission}' denied on resource '//tpu.googleapis.com/{place}' (or it may not exist)."
    return ApiError(Code.PERMISSION_DENIED, message, "IAM_PERMISSION_DENIED", permission=permission)


def _unauthenticated() -> ApiError:
    return ApiError(Code.UNAUTHENTICATED, "Request had invalid authentication credentials.", "CREDENTIALS_MISSING")


def _unknown(method: str, path: str) -> ApiError:
    return ApiError(Code.NOT_FOUND, f"The emulator does not know {method} {path}.", "UNKNOWN_METHOD")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}", "INVALID_PAYLOAD") from error


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: TpuApi = self.server.owner
        body = self.body()
        if re.match(r"/v\d", self.path):
            try:
                authorization = self.headers.get("Authorization") or ""
                status, headers, content = owner.answer(self.command, self.path, body, authorization)
            except CutError as cut:
                self._cut(cut.sent)
                return
        else:
            status, kind, content = control.answer(owner, self.command, self.path, body)
            headers = {"Content-Type": kind}
        self.send(status, headers, content)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815 (http.server's names)

    def _cut(self, sent: bytes) -> None:
        self.close_connection = True
        self.wfile.write(sent)
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The cloud's own time, which need not be the client's."""
        owner: TpuApi = self.server.owner
        return formatdate(owner.cloud.ledger.now_s if timestamp is None else timestamp, usegmt=True)
