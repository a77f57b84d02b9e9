"""Which wheelhouses, bundles and prepared texts are in use: by every stack of the backend, by every run record.

Owns reading names out of a stack's exported state and out of a record. Refuses to guess: what cannot be read, or names
its artifact in a form we do not know, is a StoreError, because what gc deletes depends on it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, cast

import yaml

from infra.artifacts.gc import Named
from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, StoreError
from infra.paths import PULUMI, ROOT
from infra.runs.records import KEY, RECORD

WHEELHOUSE_TYPE = "slipway:artifacts:Wheelhouse"  # property `wheelhouse`
BUNDLE_TYPE = "slipway:artifacts:Bundle"  # property `bundle`
TEXT_TYPE = "slipway:data:PreparedData"  # property `directory`, whose last part is the content

_NO_TEXTS = {"", "synthetic"}  # what an identity says of a run without text

SO_NOTHING = "so it is not known what is in use, and nothing may be deleted"


def by_deployment(stack: str, exported: str) -> Named:
    """Names in the text that `pulumi stack export` prints.

    What waits for its deletion still names, and so does what an `up` has just begun to make.
    """
    try:
        deployment: Mapping[str, Any] = json.loads(exported)["deployment"]
        resources: list[Any] = list(deployment.get("resources") or [])
        pending: list[Any] = deployment.get("pending_operations") or []
        resources += [operation["resource"] for operation in pending]
        wheelhouses: set[str] = set()
        bundles: set[str] = set()
        directories: set[str] = set()
        for each in resources:
            if each["type"] == WHEELHOUSE_TYPE:
                wheelhouses |= _property(stack, each, "wheelhouse")
            elif each["type"] == BUNDLE_TYPE:
                bundles |= _property(stack, each, "bundle")
            elif each["type"] == TEXT_TYPE:
                directories |= _property(stack, each, "directory")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the state of stack '{stack}' is not readable ({error!r}), {SO_NOTHING}") from error
    return Named(frozenset(wheelhouses), frozenset(bundles), frozenset(map(_last_part, directories)))


def by_record(place: str, text: str) -> Named:
    """Names in a run's record or a start of it; starts of before there were wheelhouses have none."""
    try:
        values: Mapping[str, Any] = json.loads(text)
        starts: list[Mapping[str, Any]] = [values] if "run_spec" in values else _of_0_1_0(values)
        wheelhouses = frozenset(str(start["wheelhouse"]) for start in starts if start.get("wheelhouse"))
        bundles = frozenset(str(start["bundle"]) for start in starts if start.get("bundle"))
        identity: Mapping[str, Any] = values.get("identity") or {}
        texts = {str(identity.get("data", "")), *(text_of(start.get("run_spec") or "") for start in starts)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the run record {place} is not readable ({error!r}), {SO_NOTHING}") from error
    return Named(wheelhouses, bundles, frozenset(texts - _NO_TEXTS))


def text_of(run_spec: str) -> str:
    """The content that a run reads, by its spec as YAML; empty for synthetic data. Raises ValueError for no YAML."""
    try:
        values: dict[str, Any] = yaml.safe_load(run_spec) if run_spec else {}
    except yaml.YAMLError as error:
        raise ValueError(f"a run spec is not YAML: {error}") from None
    data: dict[str, Any] = values.get("data") or {}
    return str(data.get("content", ""))


def _last_part(directory: str) -> str:
    return directory.rstrip("/").rpartition("/")[2]


def _of_0_1_0(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The starts in a record, which that release kept there. Raises KeyError for what is no record."""
    return record.get("starts", []) if record["identity"] else []


def by_stacks() -> tuple[Named, list[str]]:
    """Names in the state of every stack of the backend that `.venv/bin/pulumi` of the clone uses, and those stacks."""
    listed = _pulumi("the list of stacks", "stack", "ls", "--json")
    try:
        stacks = [str(cast(dict[str, Any], each)["name"]) for each in json.loads(listed)]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the list of stacks is not readable ({error!r}), {SO_NOTHING}") from error
    named = Named()
    for stack in stacks:
        named |= by_deployment(stack, _pulumi(f"stack '{stack}'", "stack", "export", "--stack", stack))
    return named, stacks


def by_records(locations: Iterable[str]) -> tuple[Named, int]:
    """Names in the records below these directories and places in buckets, and how many runs have one."""
    named, runs = Named(), 0
    for store in map(open_store, dict.fromkeys(locations)):
        with contextlib.suppress(NoBucketError):  # nothing was ever recorded there
            for key in filter(KEY.fullmatch, store.keys()):
                # a record that is not text fails as JSON, with its place
                named |= by_record(f"{store.uri}/{key}", store.read(key).decode(errors="replace"))
                runs += key.rpartition("/")[2] == RECORD
    return named, runs


def _property(stack: str, resource: Mapping[str, Any], name: str) -> set[str]:
    """The values of a property in the state: what it is now, and what an `up` that was cut off was about to make it."""
    sides: list[Mapping[str, Any]] = [resource.get("outputs") or {}, resource.get("inputs") or {}]
    values = [side.get(name) for side in sides]
    found = {value for value in values if isinstance(value, str) and value}
    if not found or any(value is not None and value not in found for value in values):
        raise StoreError(
            f"{resource['urn']} of stack '{stack}' does not say its {name}, {SO_NOTHING};"
            f" put its state right with: make up STACK={stack}"
        )
    return found


def _pulumi(what: str, *arguments: str) -> str:
    command = [PULUMI, *arguments, "--non-interactive", "--color", "never"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StoreError(f"cannot read {what}: no Pulumi engine ({error.strerror}), {SO_NOTHING}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[0]
        raise StoreError(f"cannot read {what}: {said.removeprefix('error: ')}, {SO_NOTHING}")
    return done.stdout
