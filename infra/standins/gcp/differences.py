"""What a change of a resource's inputs is to Google's plugin: nothing, an update, or a replacement, path by path.

Owns walking both sides together, with what provider_fields.py says at hand: what the service fills in is not removed, a
block that comes or goes counts with all that is in it, what an update does not send stays different. Refuses to own
when two values are one (defaults.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast

from infra.standins.field_changes import ChangeKind, FieldChange
from infra.standins.gcp import defaults, kinds, provider_fields, schema
from infra.standins.gcp.defaults import FILLED_IN
from infra.standins.gcp.kinds import Kind
from infra.standins.gcp.provider_fields import FieldPath, ProviderFields
from infra.standins.gcp.schema import ListOf, MapOf, ObjectOf, ResourceType, Type


def between(
    token: str, resource: ResourceType, old: Mapping[str, Any], new: Mapping[str, Any], outputs: Mapping[str, Any]
) -> list[FieldChange]:
    """By path. old, new: inputs; outputs: what the service has."""
    fields = provider_fields.of(token)
    comparison = _Comparison(kinds.of(token, resource), fields)
    before = _at_service(fields, old, new, outputs) if fields else old
    types = {key: field.type for key, field in resource.inputs.items()}
    return sorted(comparison.of_object(types, before, new, (), ""), key=lambda each: each.path)


def unsent_stays(token: str, outputs: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties after an update: of what it does not send, those from before."""
    fields = provider_fields.of(token)
    result = {**properties}
    for path in fields.unsent if fields else ():
        if _at(outputs, path) is not None and _at(result, path) is not None:
            result = _with(result, path, _at(outputs, path))
    return result


def _at_service(
    fields: ProviderFields, old: Mapping[str, Any], new: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """What new values are compared with: old ones, what the service filled in, what it has where nothing was sent."""
    before = {**old}
    for key, value in new.items():
        if value is not None and before.get(key) is None and (key,) in fields.computed and outputs.get(key):
            before[key] = outputs[key]
    for path in fields.unsent:
        if _at(outputs, path) is not None and _at(before, path) is not None:
            before = _with(before, path, _at(outputs, path))
    return before


@dataclass(frozen=True)
class _Comparison:
    """Of two values of one type. fields: None where only guesses can be had."""

    kind: Kind
    fields: ProviderFields | None

    def of_object(
        self, types: Mapping[str, Type], old: Mapping[str, Any], new: Mapping[str, Any], path: FieldPath, label: str
    ) -> Iterator[FieldChange]:
        # Of a default that is not in the state, the state is older than the default.
        unheard_of = {key for key in _list(new.get(FILLED_IN)) if key not in old}
        for key in {*old, *new} - {FILLED_IN} - unheard_of:
            name = f"{label}.{key}" if label else key
            yield from self._of_value(types.get(key), old.get(key), new.get(key), (*path, key), name)

    def _of_value(self, kind: Type | None, old: Any, new: Any, path: FieldPath, label: str) -> Iterator[FieldChange]:
        if _same(old, new) or (new is None and self._is_kept(path)) or self._is_same_set(path, old, new):
            return
        match kind:
            case ObjectOf():
                yield from self._of_block(kind, _only(old), _only(new), path, label)
            case ListOf(ObjectOf() as item):
                pairs = enumerate(zip_longest(_list(old), _list(new)))
                for index, (before, after) in pairs:
                    yield from self._of_block(item, before, after, path, f"{label}[{index}]")
            case MapOf():
                before, after = _object(old), _object(new)
                for key in before.keys() | after.keys():
                    if not _same(before.get(key), after.get(key)):
                        yield self._difference(before.get(key), after.get(key), path, f"{label}.{key}")
            case _:
                yield self._difference(old, new, path, label)

    def _of_block(self, kind: ObjectOf, old: Any, new: Any, path: FieldPath, label: str) -> Iterator[FieldChange]:
        fields = schema.object_fields(kind)
        if defaults.same(old, new):
            return
        if fields is None or not all(isinstance(each, dict | None) for each in (old, new)):
            yield self._difference(old, new, path, label)
            return
        types = {key: field.type for key, field in fields.items()}
        within = list(self.of_object(types, _object(old), _object(new), path, label))
        if old is not None and new is not None:
            yield from within
            return
        itself = self._difference(old, new, path, label)
        yield FieldChange(label, itself.kind, itself.replaces or any(each.replaces for each in within))

    def _difference(self, old: Any, new: Any, path: FieldPath, label: str) -> FieldChange:
        kind = ChangeKind.ADD if old is None else ChangeKind.DELETE if new is None else ChangeKind.UPDATE
        return FieldChange(label, kind, self._replaces(path, old, new))

    def _replaces(self, path: FieldPath, old: Any, new: Any) -> bool:
        if path[0] in self.kind.widens:
            return kinds.narrows(old, new)
        return self.fields.replaces(path) if self.fields else kinds.guess_replaces(self.kind, path[0])

    def _is_same_set(self, path: FieldPath, old: Any, new: Any) -> bool:
        """Whether both are lists of the same things, in whichever order, where order means nothing."""
        is_set = self.fields is not None and path in self.fields.sets
        if not is_set or old is None or new is None:
            return False
        return _has_all(_list(old), _list(new)) and _has_all(_list(new), _list(old))

    def _is_kept(self, path: FieldPath) -> bool:
        """Whether a value that is no longer given stays as it is."""
        return path in self.fields.computed if self.fields else False


def _same(old: Any, new: Any) -> bool:
    """To the plugin what is not given is empty, false or zero."""
    return defaults.same(old, new) or (_is_nothing(old) and _is_nothing(new))


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", False, 0, "false", "0", [], {})


def _has_all(values: list[Any], others: list[Any]) -> bool:
    return all(any(defaults.same(each, value) for value in values) for each in others)


def _only(value: Any) -> Any:
    """To the plugin an object is a list of at most one."""
    if isinstance(value, list):
        items = cast(list[Any], value)
        return items[0] if items else None
    return value


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _at(values: Mapping[str, Any], path: FieldPath) -> Any:
    value: Any = values
    for key in path:
        value = _object(value).get(key)
    return value


def _with(values: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**values, key: _with(_object(values.get(key)), tuple(rest), value) if rest else value}
