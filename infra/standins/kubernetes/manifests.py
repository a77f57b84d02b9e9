"""A manifest as a Pulumi resource: its kind by the type token, its id, and what a state holds of it.

Owns these spellings, which are the official plugin's, so that it can go on with a state that the stand-in has written.
Pure. Refuses to own what a change means (changes.py) and what the API server says (refusals.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from infra.providers.input_types import Unknown

type Fields = dict[str, Any]

_CORE = "core"
_INPUTS, _FIELD_MANAGER, _FIRST_VERSION = "__inputs", "__fieldManager", "__initialApiVersion"
_OF_THE_SERVER = ("creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Sort:
    """What a type token says: `kubernetes:batch/v1:Job`. group: empty for the core one."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


def sort_of(urn: str) -> Sort | None:
    """None where the token does not say a kind."""
    token = urn.split("::")[2].split("$")[-1]
    _, _, path_and_kind = token.partition(":")
    path, _, kind = path_and_kind.rpartition(":")
    group, slash, version = path.partition("/")
    if not (slash and version and kind):
        return None
    return Sort("" if group == _CORE else group, version, kind)


def spelled(manifest: Mapping[str, Any]) -> Sort:
    """What the manifest itself says."""
    group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
    return Sort("" if group == _CORE else group, version, str(manifest.get("kind", "")))


def metadata(manifest: Mapping[str, Any]) -> Fields:
    found = manifest.get("metadata")
    return cast(Fields, found) if isinstance(found, dict) else {}


def annotation(manifest: Mapping[str, Any], name: str) -> str:
    found = metadata(manifest).get("annotations")
    return str(cast(Fields, found).get(name, "")) if isinstance(found, dict) else ""


def name_of(manifest: Mapping[str, Any]) -> str:
    """Empty where there is none, or none that is known yet."""
    found = metadata(manifest).get("name")
    return found if isinstance(found, str) else ""


def namespace_of(manifest: Mapping[str, Any]) -> str:
    found = metadata(manifest).get("namespace")
    return found if isinstance(found, str) else ""


def with_namespace(manifest: Fields, namespace: str) -> Fields:
    """Without one where `namespace` is empty."""
    own = {key: value for key, value in metadata(manifest).items() if key != "namespace"}
    return manifest | {"metadata": own | ({"namespace": namespace} if namespace else {})}


def identifier(manifest: Mapping[str, Any]) -> str:
    namespace = namespace_of(manifest)
    return f"{namespace}/{name_of(manifest)}" if namespace else name_of(manifest)


def place_of(identifier: str) -> tuple[str, str]:
    """Namespace and name."""
    namespace, _, name = identifier.rpartition("/")
    return namespace, name


def problems(urn: str, manifest: Fields) -> Iterable[str]:
    """What the manifest lacks to be an object at all."""
    sort = sort_of(urn)
    if sort is None:
        yield f"'{urn.split('::')[2].split('$')[-1]}' names no kind as kubernetes:<group>/<version>:<Kind> does"
        return
    missing = [key for key in ("apiVersion", "kind") if not manifest.get(key)]
    if missing:
        yield f"{sort.kind}: {' and '.join(missing)} must be given, as {sort.api_version} and {sort.kind}"
    elif (own := spelled(manifest)) != sort:
        yield f"the resource is a {sort} by its type and a {own} by its manifest; they must be the same"
    if "generateName" in metadata(manifest):
        yield f"{sort.kind}: metadata.generateName is not supported by server-side apply; give metadata.name"
    elif not metadata(manifest).get("name"):
        yield f"{sort.kind}: metadata.name must be given; the stand-in for the kubernetes plugin makes up none"


# --- what a state holds ---


def kept(inputs: Fields, live: Fields, manager: str, state: Mapping[str, Any] | None = None) -> Fields:
    """The outputs of a resource: the object as it is, and what it was made from. state: the one before, if any."""
    first_version = (state or {}).get(_FIRST_VERSION) or inputs.get("apiVersion", "")
    return live | {_INPUTS: inputs, _FIRST_VERSION: first_version, _FIELD_MANAGER: manager}


def live_of(state: Mapping[str, Any]) -> Fields:
    return {key: value for key, value in state.items() if key not in (_INPUTS, _FIRST_VERSION, _FIELD_MANAGER)}


def inputs_of(state: Mapping[str, Any]) -> Fields:
    return cast(Fields, state.get(_INPUTS) or {})


def manager_of(state: Mapping[str, Any]) -> str:
    return str(state.get(_FIELD_MANAGER, ""))


def of_a_dry_run(live: Fields) -> Fields:
    """What a dry run tells of an object, without what only the real one will have."""
    return {key: value for key, value in without_server_fields(live).items() if key != "status"}


def without_server_fields(live: Fields) -> Fields:
    own = {key: value for key, value in metadata(live).items() if key not in _OF_THE_SERVER}
    return live | {"metadata": own}


def imported(live: Fields) -> Fields:
    """The inputs that an object which nobody declared so far would have."""
    found = of_a_dry_run(live)
    notes = metadata(found).get("annotations")
    if isinstance(notes, dict) and _LAST_APPLIED in notes:
        others = {key: value for key, value in cast(Fields, notes).items() if key != _LAST_APPLIED}
        own = {key: value for key, value in metadata(found).items() if key != "annotations"}
        found = found | {"metadata": own | ({"annotations": others} if others else {})}
    return found


# --- what is not known yet, and what is not there ---


def without_nulls(value: Any) -> Any:
    """A field that is null is one that is not given."""
    if isinstance(value, dict):
        fields = cast(Fields, value)
        return {key: without_nulls(each) for key, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in cast(list[Any], value)]
    return value


def unknown_paths(value: Any, path: str = "") -> list[str]:
    """As the API server spells fields: `spec.containers[0].image`."""
    if isinstance(value, Unknown):
        return [path]
    if isinstance(value, dict):
        items = [(f"{path}.{key}" if path else key, each) for key, each in cast(Fields, value).items()]
    elif isinstance(value, list):
        items = [(f"{path}[{index}]", each) for index, each in enumerate(cast(list[Any], value))]
    else:
        return []
    return [found for at, each in items for found in unknown_paths(each, at)]


def known_part(value: Any) -> Any:
    """Without what is not known yet."""
    if isinstance(value, dict):
        fields = cast(Fields, value)
        return {key: known_part(each) for key, each in fields.items() if not isinstance(each, Unknown)}
    if isinstance(value, list):
        return [known_part(each) for each in cast(list[Any], value) if not isinstance(each, Unknown)]
    return value
