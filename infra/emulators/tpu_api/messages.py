"""The shapes on the wire: the client's own protobuf messages, to and from JSON, and errors as Google's APIs word them.

Owns that nothing goes in or out that the client's descriptors do not know. Refuses to own what any of it means.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.rpc import code_pb2, status_pb2

_OTHERS: dict[str, Any] = {
    "google.longrunning.Operation": operations_pb2.Operation,
    "google.longrunning.GetOperationRequest": operations_pb2.GetOperationRequest,
    "google.longrunning.ListOperationsRequest": operations_pb2.ListOperationsRequest,
    "google.longrunning.ListOperationsResponse": operations_pb2.ListOperationsResponse,
    "google.longrunning.DeleteOperationRequest": operations_pb2.DeleteOperationRequest,
    "google.longrunning.CancelOperationRequest": operations_pb2.CancelOperationRequest,
    "google.cloud.location.Location": locations_pb2.Location,
    "google.cloud.location.GetLocationRequest": locations_pb2.GetLocationRequest,
    "google.cloud.location.ListLocationsRequest": locations_pb2.ListLocationsRequest,
    "google.cloud.location.ListLocationsResponse": locations_pb2.ListLocationsResponse,
    "google.protobuf.Empty": empty_pb2.Empty,
    "google.rpc.Status": status_pb2.Status,
}


class Code(Enum):
    """Of google.rpc: its name is the status, its value the HTTP status that goes with it."""

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


class ApiError(Exception):
    """A call that is refused, in the words of google.rpc."""

    def __init__(self, code: Code, message: str, reason: str = "", **metadata: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata

    def to_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {
            "code": self.code.http_status,
            "message": self.message,
            "status": self.code.name,
        }
        if self.reason:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": self.reason,
                    "domain": "tpu.googleapis.com",
                    "metadata": {"service": "tpu.googleapis.com", **self.metadata},
                }
            ]
        return {"error": error}


def new(kind: str, **fields: Any) -> Any:
    """An empty message: of tpu_v2 by its bare name, of another package by its full one."""
    made = _OTHERS[kind] if kind in _OTHERS else getattr(tpu_v2, kind).pb()
    return made(**fields)


def parse(kind: str, values: Any) -> Any:
    """A message from what json.loads gave; unknown fields are refused, as the real service does."""
    message = new(kind)
    try:
        json_format.ParseDict(values, message, ignore_unknown_fields=False)
    except json_format.ParseError as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}", "INVALID_PAYLOAD") from error
    return message


def plain(message: Any, numeric_enums: bool = False) -> dict[str, Any]:
    """The message as JSON values, camelCase, empty fields left out."""
    return json_format.MessageToDict(message, use_integers_for_enums=numeric_enums)


def text(message: Any, numeric_enums: bool) -> bytes:
    return json.dumps(plain(message, numeric_enums), separators=(",", ":")).encode()


def copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def set_query(request: Any, name: str, values: list[str]) -> None:
    """Sets a request's field from a query parameter; `a.b` is a field of a field. Raises ApiError."""
    *outer, last = name.split(".")
    target, nested = request, ""
    for part in outer:
        field = _field(target, part)
        if field is None or field.message_type is None:
            raise _unknown_parameter(name)
        target, nested = getattr(target, field.name), field.name
    field = _field(target, last)
    if field is None or (field.message_type is not None and field.message_type.full_name != _FIELD_MASK):
        raise _unknown_parameter(f"{nested}.{last}" if nested else name)
    if field.type == FieldDescriptor.TYPE_BOOL:
        if values[-1] not in ("true", "false"):
            raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value at '{name}' (TYPE_BOOL), {values[-1]!r}")
        given: Any = values[-1] == "true"
    else:
        given = values if field.is_repeated else values[-1]
    try:
        json_format.ParseDict({field.json_name: given}, target)
    except json_format.ParseError as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value at '{name}': {error}") from error


_FIELD_MASK = "google.protobuf.FieldMask"


def _field(message: Any, name: str) -> Any:
    fields = message.DESCRIPTOR.fields
    return next((field for field in fields if name in (field.name, field.json_name)), None)


def _unknown_parameter(name: str) -> ApiError:
    message = f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
    return ApiError(Code.INVALID_ARGUMENT, message, "INVALID_PARAMETER")


def enum_names(kind: str, path: str) -> list[str]:
    """Names of an enum nested in a message, as the client's descriptor has them."""
    return list(new(kind).DESCRIPTOR.enum_types_by_name[path].values_by_name)


def set_time(timestamp: Any, seconds: float) -> None:
    timestamp.FromNanoseconds(round(seconds * 1e6) * 1000)


def seconds_of(value: Any) -> float:
    """Of a Timestamp or a Duration."""
    return value.seconds + value.nanos / 1e9


def parse_any(values: Any) -> Any:
    """A google.protobuf.Any from its JSON."""
    return json_format.ParseDict(values, any_pb2.Any())
