"""An emulated API of Google's as an HTTP server, whatever its calls mean.

Owns the list of calls and of faults, whether the clock runs, tokens, the order in which a call is written down,
disturbed, carried out and answered, and the levers that every such emulator has below /_/. Refuses to own which request
is which call and what it means (each API's server), and what a fault does to one (call_faults.py).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from infra.emulators import call_faults
from infra.emulators.call_faults import JSON, Call, CutError, Fault, FaultKind
from infra.emulators.http_server import EmulatorHandler, HttpEmulator, next_fault
from infra.emulators.rpc_errors import Code, RpcError

_MAX_CALLS = 5_000
_METHODS = ("", "GET", "POST", "PATCH", "DELETE")
_JSON = "application/json"

type Act = Callable[[Any, Any], Any]  # of an emulator and of what a script has sent


class Routed(NamedTuple):
    """A request that is a call of the API. `act` has the effect, and gives the body of the answer. Raises RpcError."""

    rpc: str
    makes_operation: bool
    act: Callable[[str, Any, Fault | None], bytes]  # of the query, the body as JSON, and the fault that hits the call
    too_many: Callable[[], RpcError]
    denied: Callable[[], RpcError]


class RpcEmulator(HttpEmulator, ABC):
    """Context manager around the server.

    port: 0 takes a free one. token: a bearer token that every call must carry. speed: the cloud's clock runs that much
    faster than real time; 0 stands still but for `advance`. seconds_per_call: each call moves the clock that far first,
    so that whoever polls sees time pass without waiting.
    """

    rpcs: ClassVar[frozenset[str]]
    """Names of its calls."""
    paths: ClassVar[str]
    """What paths of the API begin with, as a regular expression; all others are levers."""
    levers: ClassVar[Mapping[tuple[str, str], Act]]
    """By method and path."""
    page: ClassVar[Path]
    """At /."""

    def __init__(
        self,
        handler: type[RpcHandler],
        *,
        port: int = 0,
        token: str | None = None,
        speed: float = 0,
        seconds_per_call: float = 0,
    ) -> None:
        self.token = token
        self.speed = speed
        self.seconds_per_call = seconds_per_call
        self.lock = threading.RLock()
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self._ticked_s = time.monotonic()
        super().__init__(handler, port)

    def close(self) -> None:
        self.release_all()
        super().close()

    # --- what each API is ---

    @property
    @abstractmethod
    def now_s(self) -> float:
        """The cloud's own time."""

    @abstractmethod
    def _pass(self, seconds: float) -> None:
        """Moves the cloud's clock. The lock is held."""

    @abstractmethod
    def _routed(self, method: str, path: str) -> Routed | None: ...

    def _refusal(self, code: Code, message: str, reason: str) -> RpcError:
        """As this API words one that is no call's own."""
        return RpcError(code, message)

    def save(self) -> None:
        """Keeps what has happened, where it is to be kept."""

    # --- what tests and scripts use ---

    def fail(self, kind: FaultKind, rpc: str = "", **fields: Any) -> Fault:
        """Adds a fault for the next calls that match. fields: of Fault. Raises ValueError for a call that is none."""
        fault = Fault(kind, rpc, **fields)
        if rpc and rpc not in self.rpcs:
            raise ValueError(f"{rpc} is not a call; calls: {', '.join(sorted(self.rpcs))}")
        if fault.method not in _METHODS:
            raise ValueError(f"{fault.method} is not a method of a call; methods: {', '.join(_METHODS[1:])}")
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
        """Brings the cloud's clock up to now, if it runs. The lock is held."""
        now = time.monotonic()
        elapsed, self._ticked_s = now - self._ticked_s, now
        self._pass(elapsed * self.speed)

    # --- requests ---

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a call of the API. Raises CutError."""
        path, _, query = target.partition("?")
        routed = self._routed(method, path)
        call, fault = self._written_down(method, target, routed)
        try:
            if self.token is not None and authorization != f"Bearer {self.token}":
                raise self._unauthenticated()
            if routed is None:
                sentence = f"The emulator does not know {method} {path}."
                raise self._refusal(Code.NOT_FOUND, sentence, "UNKNOWN_METHOD")
            if fault:
                call_faults.before(
                    fault, too_many=routed.too_many, denied=routed.denied, unauthenticated=self._unauthenticated
                )
            call.body = self._json(body)
            with self.lock:
                content = routed.act(query, call.body, fault)
            call.status, headers, content = call_faults.after(fault, content)
        except RpcError as error:
            headers = call_faults.after_refusal(fault, error.code.http_status)
            call.status, call.error = error.code.http_status, error.message
            content = json.dumps(error.to_json()).encode()
        finally:
            self.save()
        return call.status, {"Content-Type": JSON, **headers}, content

    def control(self, method: str, target: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body of a lever, or of the page."""
        path = target.partition("?")[0]
        if path == "/" and method == "GET":
            return 200, "text/html; charset=utf-8", self.page.read_bytes()
        levers = {**self.levers, **_EVERY_LEVER}
        act = levers.get((method, path))
        if act is None:
            known = ", ".join(f"{method} {path}" for method, path in levers)
            return 404, _JSON, json.dumps({"error": f"there is no {method} {path}; there are: {known}"}).encode()
        try:
            arguments: Any = json.loads(body) if body else {}
            with self.lock:
                self.tick()
                result = act(self, arguments)
                self._pass(0)
            self.save()
        except (ValueError, TypeError, KeyError, IndexError) as error:
            return 400, _JSON, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
        return 200, _JSON, json.dumps({} if result is None else result).encode()

    def _written_down(self, method: str, target: str, routed: Routed | None) -> tuple[Call, Fault | None]:
        with self.lock:
            self.tick()
            self._pass(self.seconds_per_call)
            number = self.calls[-1].number + 1 if self.calls else 1
            call = Call(number, self.now_s, routed.rpc if routed else "", method, target)
            call.makes_operation = bool(routed and routed.makes_operation)
            self.calls.append(call)
            del self.calls[:-_MAX_CALLS]
            fault = next_fault(fault for fault in self.faults if fault.matches(call))
            call.fault = fault.kind.name if fault else ""
        return call, fault

    def _unauthenticated(self) -> RpcError:
        sentence = "Request had invalid authentication credentials."
        return self._refusal(Code.UNAUTHENTICATED, sentence, "CREDENTIALS_MISSING")

    def _json(self, body: bytes) -> Any:
        try:
            return json.loads(body) if body else None
        except ValueError as error:
            sentence = f"Invalid JSON payload received. {error}"
            raise self._refusal(Code.INVALID_ARGUMENT, sentence, "INVALID_PAYLOAD") from error


def _add_fault(api: RpcEmulator, arguments: dict[str, Any]) -> dict[str, Any]:
    name = arguments.pop("kind")
    if name not in FaultKind.__members__:
        raise ValueError(f"{name} is not a kind of fault; kinds: {', '.join(FaultKind.__members__)}")
    return api.fail(FaultKind[name], **arguments).to_json()


def _forget_faults(api: RpcEmulator, _: Any) -> None:
    api.release_all()
    api.faults.clear()


def _set_speed(api: RpcEmulator, arguments: dict[str, Any]) -> None:
    api.speed = float(arguments["speed"])


_EVERY_LEVER: dict[tuple[str, str], Act] = {
    ("GET", "/_/calls"): lambda api, _: [call.to_json() for call in api.calls],
    ("DELETE", "/_/calls"): lambda api, _: api.calls.clear(),
    ("POST", "/_/advance"): lambda api, arguments: api.advance(arguments["seconds"]),
    ("POST", "/_/speed"): _set_speed,
    ("GET", "/_/faults"): lambda api, _: [fault.to_json() for fault in api.faults],
    ("POST", "/_/faults"): _add_fault,
    ("DELETE", "/_/faults"): _forget_faults,
    ("POST", "/_/release"): lambda api, _: api.release_all(),
}


class RpcHandler(EmulatorHandler):
    def _serve(self) -> None:
        owner: RpcEmulator = self.server.owner
        body = self.body()
        if re.match(owner.paths, self.path):
            try:
                authorization = self.headers.get("Authorization") or ""
                status, headers, content = owner.answer(self.command, self.path, body, authorization)
            except CutError as cut:
                self._cut(cut.sent)
                return
        else:
            status, kind, content = owner.control(self.command, self.path, body)
            headers = {"Content-Type": kind}
        self.send(status, headers, content)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815 (http.server's names)

    def _cut(self, sent: bytes) -> None:
        self.close_connection = True
        self.wfile.write(sent)
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
