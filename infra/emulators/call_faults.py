"""What can go wrong with a call of an emulated API of Google's, with which one, and what happens then.

Owns the kinds, which call a fault matches, and what it does before and after the call's effect. Refuses to own the
faults of an operation, which only the service that answers with one can carry out, and the words of its own refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from infra.emulators.http_server import ChosenCalls
from infra.emulators.rpc_errors import Code, RpcError

JSON = "application/json; charset=UTF-8"
_MAX_HELD_S = 600


class FaultKind(Enum):
    """`AFTER` in a name: the effect has happened and the client does not learn it."""

    TOO_MANY_REQUESTS = "429 with Retry-After, nothing done"
    INTERNAL = "500, nothing done"
    INTERNAL_AFTER = "500, done"
    UNAVAILABLE = "503, nothing done"
    UNAVAILABLE_AFTER = "503, done"
    GATEWAY_TIMEOUT = "504, nothing done"
    GATEWAY_TIMEOUT_AFTER = "504, done"
    DENIED = "403, nothing done"
    UNAUTHENTICATED = "401, nothing done"
    TIMEOUT = "no answer until the client gives up or `release`, nothing done"
    TIMEOUT_AFTER = "no answer until the client gives up or `release`, done"
    CUT_BEFORE = "the connection is cut, nothing done"
    CUT_AFTER = "the connection is cut without an answer, done"
    CUT_WITHIN = "the connection is cut in the middle of the answer, done"
    MALFORMED = "200 and a page of HTML instead of JSON, done"
    EMPTY = "200 and {}, done"
    SLOW = "done and answered late: after `delay_s` seconds of real time or `release`, also if the client gave up"
    SLOW_OPERATION = "its operation is done `delay_s` seconds of the cloud's clock later than its effect"
    OPERATION_ERROR = "its operation ends in an error, nothing done"
    OPERATION_ERROR_AFTER = "its operation ends in an error, done all the same"

    @property
    def is_of_operation(self) -> bool:
        return self in (FaultKind.SLOW_OPERATION, FaultKind.OPERATION_ERROR, FaultKind.OPERATION_ERROR_AFTER)

    @property
    def has_effect(self) -> bool:
        return self in _WITH_EFFECT


_WITH_EFFECT = {
    *(kind for kind in FaultKind if kind.name.endswith("_AFTER")),
    FaultKind.CUT_WITHIN,
    FaultKind.MALFORMED,
    FaultKind.EMPTY,
    FaultKind.SLOW,
    FaultKind.SLOW_OPERATION,
}


@dataclass
class Fault(ChosenCalls):
    """What goes wrong with some calls. A fault of an operation matches only calls that answer with one."""

    kind: FaultKind
    rpc: str = ""  # the call's name, for example CreateQueuedResource; "" is any
    retry_after_s: int = 1
    delay_s: float = 30
    number: int = 0

    def matches(self, call: Call) -> bool:
        return (
            self.rpc in ("", call.rpc)
            and self.method in ("", call.method)
            and self.path in call.target
            and (call.makes_operation or not self.kind.is_of_operation)
        )

    def to_json(self) -> dict[str, Any]:
        left_out = ("held", "release", "kind")
        values = {key: value for key, value in vars(self).items() if key not in left_out}
        return {"kind": self.kind.name, **values, "held": self.held.is_set() and not self.release.is_set()}


@dataclass
class Call:
    """A call that has arrived. `status` is 0 until it is answered, and stays 0 where the connection was cut."""

    number: int
    time_s: float  # of the cloud's clock
    rpc: str
    method: str
    target: str  # path and query as sent
    body: Any = None  # JSON
    makes_operation: bool = False
    status: int = 0
    fault: str = ""
    error: str = ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def to_json(self) -> dict[str, Any]:
        """The call without its body, which may hold secrets in the metadata of a node."""
        return {key: value for key, value in vars(self).items() if key != "body"}


class CutError(Exception):
    """The connection is to be cut after these bytes."""

    def __init__(self, sent: bytes = b"") -> None:
        super().__init__()
        self.sent = sent


_REFUSALS = {
    FaultKind.INTERNAL: (Code.INTERNAL, "Internal error encountered."),
    FaultKind.UNAVAILABLE: (Code.UNAVAILABLE, "The service is currently unavailable."),
    FaultKind.GATEWAY_TIMEOUT: (Code.DEADLINE_EXCEEDED, "Deadline expired before operation could complete."),
}
_REFUSALS.update({FaultKind[f"{kind.name}_AFTER"]: refusal for kind, refusal in _REFUSALS.items()})
_TIMEOUTS = (FaultKind.TIMEOUT, FaultKind.TIMEOUT_AFTER)
_CUTS_WITHOUT_ANSWER = (FaultKind.CUT_AFTER, FaultKind.CUT_WITHIN, FaultKind.TIMEOUT_AFTER)


def before(
    fault: Fault,
    *,
    too_many: Callable[[], RpcError],
    denied: Callable[[], RpcError],
    unauthenticated: Callable[[], RpcError],
) -> None:
    """Carries out a fault that comes before the call has an effect. Raises RpcError or CutError."""
    if not fault.kind.has_effect:
        _disturb(fault)
    match fault.kind:
        case FaultKind.TOO_MANY_REQUESTS:
            raise too_many()
        case FaultKind.DENIED:
            raise denied()
        case FaultKind.UNAUTHENTICATED:
            raise unauthenticated()
        case FaultKind.SLOW:
            _hold(fault, fault.delay_s)
        case _:
            pass


def after(fault: Fault | None, content: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer, changed by a fault. Raises RpcError or CutError."""
    if fault and fault.kind.has_effect:
        _disturb(fault)
    match fault and fault.kind:
        case FaultKind.CUT_WITHIN:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {len(content)}\r\n\r\n"
            raise CutError(head.encode() + content[: len(content) // 2])
        case FaultKind.MALFORMED:
            return 200, {"Content-Type": "text/html"}, b"<html><body><h1>Something is in between</h1></body></html>"
        case FaultKind.EMPTY:
            return 200, {}, b"{}"
        case _:
            return 200, {}, content


def after_refusal(fault: Fault | None, refused: int) -> dict[str, str]:
    """Headers of a refusal with that status. Raises CutError: what is refused is not learned either."""
    if fault and fault.kind in _CUTS_WITHOUT_ANSWER:
        after(fault, b"{}")
    return {"Retry-After": str(fault.retry_after_s)} if fault and refused == 429 else {}


def _disturb(fault: Fault) -> None:
    """Carries out a fault that may come before the effect or after it. Raises RpcError or CutError."""
    if fault.kind in _REFUSALS:
        raise RpcError(*_REFUSALS[fault.kind])
    if fault.kind in _TIMEOUTS:
        _hold(fault, _MAX_HELD_S)
    if fault.kind in (*_TIMEOUTS, FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER):
        raise CutError


def _hold(fault: Fault, seconds: float) -> None:
    fault.held.set()
    fault.release.wait(min(seconds, _MAX_HELD_S))
