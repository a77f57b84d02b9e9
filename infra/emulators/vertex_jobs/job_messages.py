"""CustomJob and the messages of its calls, to and from JSON, as google-cloud-aiplatform 2.7.0 describes them.

custom_jobs.json is the part of that client's descriptors that these messages need (tests/gcloud/aiplatform_client.py
prints it): the client itself takes seconds to import, and a server starts with every test. Owns that nothing goes in or
out that they do not know. Refuses to own what any of it means.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, duration_pb2, field_mask_pb2, json_format, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2

from infra.emulators.rpc_errors import Code, RpcError

PACKAGE = "google.cloud.aiplatform.v1"
DESCRIPTORS = Path(__file__).with_name("custom_jobs.json")
_IMPORTED: tuple[Any, ...] = (any_pb2, duration_pb2, timestamp_pb2, field_mask_pb2, status_pb2)


@cache
def _pool() -> DescriptorPool:
    """One of its own, so that a process may have Google's client as well."""
    pool = DescriptorPool()
    for module in _IMPORTED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    written = json.loads(DESCRIPTORS.read_text(encoding="utf-8"))
    pool.AddSerializedFile(json_format.ParseDict(written, descriptor_pb2.FileDescriptorProto()).SerializeToString())
    return pool


def new(kind: str, **fields: Any) -> Any:
    """A new message. kind: its bare name."""
    return GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{kind}"))(**fields)


def parse(kind: str, values: Any, path: str) -> Any:
    """A message from what json.loads gave; `path` is the field that it fills. Raises RpcError as Google's REST does."""
    message = new(kind)
    _refuse_unknown(message.DESCRIPTOR, values, path)
    try:
        json_format.ParseDict(values, message, ignore_unknown_fields=False)
    except json_format.ParseError as error:
        raise _invalid(f"Invalid value at '{path}': {error}") from error
    return message


def _refuse_unknown(descriptor: Any, values: Any, path: str) -> None:
    """Refuses unknown names and two fields of one oneof, in the words of the JSON parser behind Google's REST APIs."""
    if not isinstance(values, dict):
        raise _invalid(f"Invalid value at '{path}' (type.googleapis.com/{descriptor.full_name}), {json.dumps(values)}")
    filled: set[str] = set()
    for key, value in values.items():
        field = descriptor.fields_by_camelcase_name.get(key) or descriptor.fields_by_name.get(key)
        if field is None:
            raise _invalid(f"Invalid JSON payload received. Unknown name \"{key}\" at '{path}': Cannot find field.")
        below = f"{path}.{field.name}"
        if field.containing_oneof and value is not None:
            if field.containing_oneof.name in filled:
                oneof = field.containing_oneof.name
                complaint = f"oneof field '{oneof}' is already set. Cannot set '{key}'"
                raise _invalid(f"Invalid value at '{path}' (oneof), {complaint}")
            filled.add(field.containing_oneof.name)
        _refuse_below(field, value, below)


def _refuse_below(field: Any, value: Any, path: str) -> None:
    kind = field.message_type
    if value is None or kind is None or kind.GetOptions().map_entry or not kind.full_name.startswith(PACKAGE):
        return
    if not field.is_repeated:
        _refuse_unknown(kind, value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_unknown(kind, item, f"{path}[{index}]")


def plain(message: Any, numeric_enums: bool = False) -> dict[str, Any]:
    """The message as JSON values, camelCase, empty fields left out."""
    return json_format.MessageToDict(message, use_integers_for_enums=numeric_enums)


def masked(message: Any, mask: str) -> Any:
    """A copy with only the fields that a mask of camelCase or snake_case names has."""
    paths = field_mask_pb2.FieldMask()
    for path in filter(None, mask.split(",")):
        fields = message.DESCRIPTOR
        if path.split(".")[0] not in {*fields.fields_by_name, *fields.fields_by_camelcase_name}:
            raise _invalid(f"Invalid value at 'read_mask': {path!r} is not a field of {fields.name}")
        paths.paths.append("".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in path))
    copy = type(message)()
    paths.MergeMessage(message, copy)
    return copy


def enum_name(message: Any, field: str) -> str:
    """The name of an enum field's value."""
    return message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number[getattr(message, field)].name


def set_time(timestamp: Any, seconds: float) -> None:
    timestamp.FromNanoseconds(round(seconds * 1e6) * 1000)


def time_text(seconds: float) -> str:
    """A time as JSON has it: RFC 3339."""
    timestamp = timestamp_pb2.Timestamp()
    set_time(timestamp, seconds)
    return timestamp.ToJsonString()


def seconds_of_text(text: str) -> float:
    """The seconds of an RFC 3339 time. Raises ValueError."""
    timestamp = timestamp_pb2.Timestamp()
    timestamp.FromJsonString(text)
    return timestamp.seconds + timestamp.nanos / 1e9


def seconds_of(duration: Any) -> float:
    return duration.seconds + duration.nanos / 1e9


def _invalid(sentence: str) -> RpcError:
    return RpcError(Code.INVALID_ARGUMENT, sentence)
