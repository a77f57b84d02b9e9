"""The emulator as an HTTP server: `with TpuApi() as api: ... api.url, api.cloud, api.fail(...)`.

Owns how a request comes to its call, and the file that keeps the cloud. Refuses to own what a call means (service.py),
what every emulated API does with one (infra/emulators/rpc_emulator.py) and what scripts and the page do (control.py).
"""

from __future__ import annotations

import json
import os
import time
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

from infra.emulators.call_faults import Fault, FaultKind
from infra.emulators.rpc_emulator import Routed, RpcEmulator, RpcHandler
from infra.emulators.rpc_errors import RpcError
from infra.emulators.tpu_api import control, errors, messages, routes
from infra.emulators.tpu_api.checks import project_number
from infra.emulators.tpu_api.cloud import Cloud
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.extras import Shown
from infra.emulators.tpu_api.routes import Route
from infra.emulators.tpu_api.service import Service


class TpuApi(RpcEmulator):
    """Context manager around the server.

    page_size: no page is longer. The others are of RpcEmulator.
    state: a file that keeps the cloud across starts.
    """

    rpcs = frozenset(route.rpc for route in routes.ROUTES)
    paths = r"/v\d"
    levers = control.LEVERS
    page = Path(__file__).with_name("page.html")

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
        self._state = state
        self._saved: int | None = None
        if state and state.exists():
            self.cloud.ledger.restore(json.loads(state.read_text(encoding="utf-8")))
            self.cloud.transitions.advance(max(0.0, time.time() - self.cloud.ledger.now_s) if speed else 0)
        super().__init__(_Handler, port=port, token=token, speed=speed, seconds_per_call=seconds_per_call)

    def close(self) -> None:
        super().close()
        self.save()

    @property
    def now_s(self) -> float:
        return self.cloud.ledger.now_s

    def _pass(self, seconds: float) -> None:
        self.cloud.transitions.advance(seconds)

    def save(self) -> None:
        """Writes the state file if anything has happened since."""
        with self.lock:
            if self._state is None or self._saved == self.cloud.ledger.revision:
                return
            self._saved = self.cloud.ledger.revision
            partial = self._state.with_name(f"{self._state.name}.{os.getpid()}.partial")
            partial.write_text(json.dumps(self.cloud.ledger.snapshot()), encoding="utf-8")
            partial.replace(self._state)

    def _refusal(self, code: Code, message: str, reason: str) -> RpcError:
        return ApiError(code, message, reason)

    def _routed(self, method: str, path: str) -> Routed | None:
        found = routes.find(method, path)
        if found is None:
            return None
        route, fields, _ = found
        place = next(iter(fields.values()))
        return Routed(
            route.rpc,
            route.makes_operation,
            partial(self._answer, found),
            too_many=lambda: errors.too_many_calls(project_number(place.split("/")[1])),
            denied=lambda: _denied(route, place),
        )

    def _answer(self, routed: tuple[Route, dict[str, str], str], query: str, body: Any, fault: Fault | None) -> bytes:
        message = self._act(routed, query, body, fault)
        ledger = self.cloud.ledger
        extras = Shown(routed[2], ledger.requests, ledger.nodes, ledger.behaviour.extras_in_operations)
        shown = extras.add(messages.plain(message, routes.wants_numeric_enums(query)))
        return json.dumps(shown, separators=(",", ":")).encode()

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


def _denied(route: Route, place: str) -> ApiError:
    """A refusal as Google's IAM words it."""
    verb = route.verb if route.verb != "reset" else "update"
    kind = "nodes" if "Node" in route.rpc or "Guest" in route.rpc else "queuedResources"
    kind = next((word for word in ("operations", "locations") if word[:-1].title() in route.rpc), kind)
    permission = f"tpu.{kind}.{verb}"
    message = f"Permission '{permission}' denied on resource '//tpu.googleapis.com/{place}' (or it may not exist)."
    return ApiError(Code.PERMISSION_DENIED, message, "IAM_PERMISSION_DENIED", permission=permission)


class _Handler(RpcHandler):
    def date_time_string(self, timestamp: float | None = None) -> str:
        """The cloud's own time, which need not be the client's."""
        owner: TpuApi = self.server.owner
        return formatdate(owner.cloud.ledger.now_s if timestamp is None else timestamp, usegmt=True)
