"""What can go wrong with a call, and with which one.

Owns the kinds and which call a fault matches. Refuses to own what happens then (server.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from infra.emulators.http_server import ChosenCalls


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
