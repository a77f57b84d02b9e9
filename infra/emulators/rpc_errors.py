"""Errors in the words of google.rpc: codes, statuses, and their JSON over REST.

Owns the form of an error. Refuses to own when one is due, and what an API says in it.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.rpc import code_pb2


@dataclass(frozen=True)
class RpcStatus:
    """A google.rpc.Status: why a request is FAILED or an operation has ended in an error."""

    code: int
    message: str


class Code(Enum):
    """Codes of google.rpc. The name is the status, the value the HTTP status that goes with it."""

    CANCELLED = (499,)
    UNKNOWN = (500, 1)
    INVALID_ARGUMENT = (400, 1)
    DEADLINE_EXCEEDED = (504,)
    NOT_FOUND = (404,)
    ALREADY_EXISTS = (409, 1)
    PERMISSION_DENIED = (403,)
    RESOURCE_EXHAUSTED = (429,)
    FAILED_PRECONDITION = (400, 2)
    ABORTED = (409, 2)
    OUT_OF_RANGE = (400, 3)
    UNIMPLEMENTED = (501,)
    INTERNAL = (500, 2)
    UNAVAILABLE = (503,)
    UNAUTHENTICATED = (401,)

    @property
    def http_status(self) -> int:
        return self.value[0]

    @property
    def number(self) -> int:
        return code_pb2.Code.Value(self.name)


class RpcError(Exception):
    """A call that is refused. details: as JSON."""

    def __init__(self, code: Code, message: str, details: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = list(details)

    @property
    def failure(self) -> RpcStatus:
        """The same error as a google.rpc.Status, for an operation or something that is FAILED."""
        return RpcStatus(self.code.number, self.message)

    def to_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code.http_status, "message": self.message, "status": self.code.name}
        return {"error": error | ({"details": self.details} if self.details else {})}
