"""What a change of a manifest means: which fields differ from the object as it was last read, and which replace.

Pure. Compares as the official plugin does (its provider.go, Diff): the object is pruned to what the old inputs say, so
that what the API server or a controller has filled in is no change, and what somebody else has changed is one. Refuses
to own which other fields cannot change: the API server knows them, and is asked (refusals.py reads its answer).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from infra.providers.input_types import Unknown
from infra.standins.field_changes import ChangeKind, FieldChange
from infra.standins.kubernetes import manifests
from infra.standins.kubernetes.manifests import Fields, Sort

# Fields whose change is a replacement to the official plugin (its diff.go, 4.32), by group and kind, whatever the
# version. Where its table has more (a Pod's fields, a PersistentVolume's sources), the API server refuses the change.
_IDENTITY = ("metadata.name", "metadata.namespace")
_BINDING = ("roleRef",)
_REPLACES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolumeClaim"): (
        *("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    ),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP",),
    ("apps", "DaemonSet"): ("spec.selector",),
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "StatefulSet"): (
        *("spec.podManagementPolicy", "spec.revisionHistoryLimit", "spec.selector", "spec.serviceName"),
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
}
# Replaced too, unless the provider's setting of that kind says that it may change.
_CONTENT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "ConfigMap"): ("data", "binaryData"),
    ("", "Secret"): ("data", "stringData"),
}
_PLAIN_KEY = re.compile(r"[^.\"\[\]]+")


def replacing_fields(sort: Sort, manifest: Fields, mutable: Iterable[str] = ()) -> tuple[str, ...]:
    """mutable: the kinds (ConfigMap, Secret) whose content the provider's settings let change in place."""
    kind = (sort.group, sort.kind)
    content = _CONTENT.get(kind, ())
    if sort.kind in mutable and manifest.get("immutable") is not True:
        content = ()
    return (*_IDENTITY, *_REPLACES.get(kind, ()), *content)


def changes(old_inputs: Fields, live: Fields, new: Fields, replacing: Iterable[str]) -> list[FieldChange]:
    """From the object as a state has it to new inputs. Both have a namespace, or neither has one."""
    before = pruned(live, old_inputs)
    if manifests.name_of(live):
        before["metadata"] = manifests.metadata(before) | {"name": manifests.name_of(live)}
    found = _differences(before, new, "")
    fields = tuple(replacing)
    return [FieldChange(each.path, each.kind, any(is_in(each.path, field) for field in fields)) for each in found]


def with_replaced(found: Iterable[FieldChange], immutable: Iterable[str]) -> list[FieldChange]:
    """The same changes where the API server says of some fields that they cannot change.

    It may name a field above or below ours, or none of ours: then every change replaces.
    """
    every, fields = list(found), tuple(immutable)
    named = {each.path for each in every if any(is_in(each.path, one) or is_in(one, each.path) for one in fields)}
    return [
        FieldChange(each.path, each.kind, each.replaces or each.path in named or (bool(fields) and not named))
        for each in every
    ]


def is_in(path: str, field: str) -> bool:
    """Whether a path is a field, or lies below it."""
    return path == field or path.startswith((f"{field}.", f"{field}["))


def pruned(live: Fields, like: Fields) -> Fields:
    """What an object says of the fields that are given in `like`; an item of a list is found by its position."""
    return {key: _pruned(value, like[key]) for key, value in live.items() if key in like}


def _pruned(value: Any, like: Any) -> Any:
    if isinstance(value, dict) and isinstance(like, dict):
        return pruned(cast(Fields, value), cast(Fields, like))
    if isinstance(value, list) and isinstance(like, list):
        pairs = zip(cast(list[Any], value), cast(list[Any], like), strict=False)
        return [_pruned(each, one) for each, one in pairs]
    return cast(Any, value)


def _differences(old: Any, new: Any, path: str) -> list[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(Fields, old), cast(Fields, new)
        return [
            each
            for key in sorted({*before, *after})
            for each in _difference(before.get(key, _MISSING), after.get(key, _MISSING), _below(path, key))
        ]
    if isinstance(old, list) and isinstance(new, list):
        before, after = cast(list[Any], old), cast(list[Any], new)
        return [
            each
            for index in range(max(len(before), len(after)))
            for each in _difference(_at(before, index), _at(after, index), f"{path}[{index}]")
        ]
    return [] if _same(old, new) else [FieldChange(path, ChangeKind.UPDATE)]


def _difference(old: Any, new: Any, path: str) -> list[FieldChange]:
    if old is _MISSING:
        return [FieldChange(path, ChangeKind.ADD)]
    if new is _MISSING:
        return [FieldChange(path, ChangeKind.DELETE)]
    return _differences(old, new, path)


_MISSING = object()


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else _MISSING


def _same(old: Any, new: Any) -> bool:
    """True is not 1, and what is not known yet is like nothing."""
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return False
    return isinstance(old, bool) == isinstance(new, bool) and old == new


def _below(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        escaped = key.replace('"', '\\"')
        return f'{path}["{escaped}"]'
    return f"{path}.{key}" if path else key
