"""The shapes on the wire: the client's own protobuf messages, to and from JSON.

Owns that nothing goes in or out that the client's descriptors do not know. Refuses to own what any of it means.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, duration_pb2, empty_pb2, json_format, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor

from infra.emulators.tpu_api.errors import ApiError, Code

_PACKAGES: dict[str, Any] = {
    "google.longrunning": operations_pb2,
    "google.cloud.location": locations_pb2,
    "google.protobuf": empty_pb2,
}


def new(kind: str, **fields: Any) -> Any:
    """A new message. kind: the bare name for tpu_v2, the full one for other packages."""
    package, _, name = kind.rpartition(".")
    message_class = getattr(_PACKAGES[package], name) if package else getattr(tpu_v2, name).pb()
    return message_class(**fields)


def parse(kind: str, values: Any) -> Any:
    """A message from what json.loads gave; unknown fields are refused, as the real service does."""
    message = new(kind)
    _check_oneofs(message.DESCRIPTOR, values, "")
    try:
        json_format.ParseDict(values, message, ignore_unknown_fields=False)
    except json_format.ParseError as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}", "INVALID_PAYLOAD") from error
    return message


def _check_oneofs(descriptor: Any, values: Any, path: str) -> None:
    """Refuses two fields of one oneof, in the words of the JSON parser behind Google's REST APIs. Raises ApiError.

    Google's own client never sends two: its message keeps the last one that was set.
    """
    if not isinstance(values, dict):
        return
    set_by: dict[str, str] = {}
    for key, value in values.items():
        field = descriptor.fields_by_camelcase_name.get(key) or descriptor.fields_by_name.get(key)
        if field is None or value is None:
            continue
        oneof = field.containing_oneof.name if field.containing_oneof else ""
        if oneof in set_by:
            complaint = f"oneof field '{oneof}' is already set. Cannot set '{key}'"
            raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value at '{path}' (oneof), {complaint}")
        if oneof:
            set_by[oneof] = key
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            below = f"{path}.{field.name}" if path else field.name
            for item in value if field.is_repeated and isinstance(value, list) else [value]:
                _check_oneofs(field.message_type, item, below)


def plain(message: Any, numeric_enums: bool = False) -> dict[str, Any]:
    """The message as JSON values, camelCase, empty fields left out."""
    return json_format.MessageToDict(message, use_integers_for_enums=numeric_enums)


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
    parameter: Any = values if field.is_repeated else values[-1]
    if field.type == FieldDescriptor.TYPE_BOOL:
        if values[-1].lower() not in _TRUTHS:
            raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value at '{name}' (TYPE_BOOL), {values[-1]!r}")
        parameter = _TRUTHS[values[-1].lower()]
    try:
        json_format.ParseDict({field.json_name: parameter}, target)
    except json_format.ParseError as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value at '{name}': {error}") from error


_FIELD_MASK = "google.protobuf.FieldMask"
# What protobuf's own parser of query values takes, in either case; gcloud sends `True`.
_TRUTHS: dict[str, bool] = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


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


def time_text(seconds: float) -> str:
    """A time as JSON has it: RFC 3339."""
    timestamp = timestamp_pb2.Timestamp()
    set_time(timestamp, seconds)
    return timestamp.ToJsonString()


def seconds_of(value: Any) -> float:
    """The seconds of a Timestamp or a Duration."""
    return value.seconds + value.nanos / 1e9


def parse_duration(text: Any) -> Any:
    """A Duration from its JSON: seconds with an `s`. Raises ApiError."""
    duration = duration_pb2.Duration()
    try:
        duration.FromJsonString(text)
    except (ValueError, AttributeError) as error:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid value {text!r} (google.protobuf.Duration).") from error
    return duration


def parse_any(values: Any) -> Any:
    """A google.protobuf.Any from its JSON."""
    return json_format.ParseDict(values, any_pb2.Any())
