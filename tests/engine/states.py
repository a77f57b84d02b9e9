"""States that a released Slipway has written, as fixtures, and how they come back into a clone of today.

    python -m tests.engine.states record 0.1.0      run once per release, at its commit: writes tests/states/0.1.0/

A state holds what a release decided (kept as it is) and what merely follows from today's sources: hashes of bundle and
wheelhouse, the run spec, the startup script. The latter are placeholders in the fixture, filled with what today's
program declares, so that a preview shows changes of the release's decisions and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from infra.artifacts.layout import bundle_key
from infra.artifacts.opening import open_store
from infra.emulators.tpu_api import TpuApi, messages
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.records import Request
from infra.paths import ROOT
from infra.targets.tpu_vm.provider.tpu_inputs import fingerprint
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from tests.emulators.instant import INSTANT
from tests.engine import test_foundation
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import PROJECT, emulated, settings_of, write
from tests.golden_files import GOLDEN

DIRECTORY = ROOT / "tests" / "states"
LOCAL, TPU_VM, FOUNDATION = "local.kept", "v6e-8.kept", "foundation.kept"
LIKE = "v6e-8"
STACKS = {"local": LOCAL, "tpu-vm": TPU_VM, "foundation": FOUNDATION}
_HOST_FILES = ("host.json", "status.json", "run_spec.yaml")


def explained(target: str, release: str) -> frozenset[tuple[str, str]]:
    """The changes that an upgrade may plan, as action and resource: creates, each with its reason."""
    reasons = yaml.safe_load((GOLDEN / f"creates-after-{release}.yaml").read_text())[target]
    assert all(reasons.values()), f"a create of {target} has no reason"
    return frozenset(("create", resource) for resource in reasons)


def write_stack(clone: Clone, target: str) -> str:
    """The stack file that the state was made of. Returns the stack's name."""
    stack = STACKS[target]
    if target == "local":
        clone.stack(stack, steps=12)
    elif target == "tpu-vm":
        write(clone, stack, like=LIKE, project=PROJECT, zones=["us-east5-b", "us-east5-a"])
    else:
        test_foundation.write(clone, stack)
    return stack


def contents(resources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What follows from sources, by placeholder; longest first, for a script holds a hash."""
    found: dict[str, str] = {}
    for resource in resources:
        inputs = resource.get("inputs") or {}
        match resource["type"]:
            case "slipway:artifacts:Bundle":
                found |= {"{bundle}": inputs["bundle"], "{run_spec}": inputs["run_spec"]}
            case "slipway:artifacts:Wheelhouse":
                found |= {"{wheelhouse}": inputs["wheelhouse"]}
            case "slipway:tpu:QueuedResource":
                request = TpuRequestResource().parse(inputs)
                found["{startup-script}"] = request.metadata["startup-script"]
                found["{metadata}"] = fingerprint(request).partition("-")[2]
            case "slipway:local:Host":
                found["{coordinator}"] = inputs["coordinator"]  # its port is of the clone's path
            case _:
                pass
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def templated(text: str, values: Mapping[str, str], clone: Clone) -> str:
    for placeholder, value in ({**values, "{clone}": str(clone.directory)}).items():
        text = text.replace(_escaped(value), placeholder)
    return text


def filled(text: str, values: Mapping[str, str], clone: Clone) -> str:
    for placeholder, value in ({**values, "{clone}": str(clone.directory)}).items():
        text = text.replace(placeholder, _escaped(value))
    return text


# --- back into a clone ---


def restore(clone: Clone, target: str, version: str, api: TpuApi | None = None) -> str:
    """The stack as `version` has left it, and the emulated cloud as its `up` has. Returns the stack's name."""
    stack = write_stack(clone, target)
    fresh = clone.pulumi("preview", stack, "--json")
    assert fresh.returncode == 0, said(fresh)
    values = contents(step["newState"] for step in json.loads(fresh.stdout)["steps"])
    folder = DIRECTORY / version / target
    for kept in folder.glob("hosts/*/*"):
        file = clone.work(stack) / kept.relative_to(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(filled(kept.read_text(), values, clone))
    state = clone.directory / "state.json"
    state.write_text(filled((folder / "state.json").read_text(), values, clone))
    imported = clone.run("pulumi", "stack", "import", "--stack", stack, "--file", str(state))
    assert imported.returncode == 0, said(imported)
    if api:
        for kept in json.loads(filled((folder / "cloud.json").read_text(), values, clone)):
            name = str(kept["name"])
            message = messages.parse("QueuedResource", kept["message"])
            api.cloud.create_request(Place.of(name), name.rpartition("/")[2], message)
        open_store(settings_of(LIKE, project=PROJECT).places.artifacts).put(bundle_key(values["{bundle}"]), state)
    return stack


# --- once per release ---


def _record(version: str, work: Path) -> None:
    clone = Clone.make(work / "clone")
    for target in STACKS:
        stack = write_stack(clone, target)
        folder = DIRECTORY / version / target
        with pytest.MonkeyPatch.context() as patch, emulated(work / target, [LIKE], INSTANT) as api:
            patch.setenv("SLIPWAY_STANDIN_STATE", str(work / "google"))
            patch.setenv("HOME", str(work / "home"))
            done = clone.pulumi("up", stack)
            assert done.returncode == 0, said(done)
            if target == "local":
                assert clone.run("slipway", "watch", stack).returncode == 0
            exported = _without_places(json.loads(clone.run("pulumi", "stack", "export", "--stack", stack).stdout))
            values = contents(exported["deployment"]["resources"])
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / "state.json", exported, values, clone)
            if target == "tpu-vm":
                _write(
                    folder / "cloud.json", [_asked(one) for one in api.cloud.ledger.requests.values()], values, clone
                )
        for host in sorted((clone.work(stack) / "hosts").glob("*")):
            (folder / "hosts" / host.name).mkdir(parents=True, exist_ok=True)
            for name in _HOST_FILES:
                text = (host / name).read_text()
                (folder / "hosts" / host.name / name).write_text(templated(text, values, clone))


def _without_places(value: Any) -> Any:
    """Without the source files of the machine that wrote it, which the engine keeps beside each resource."""
    if isinstance(value, dict):
        kept = cast(dict[str, Any], value)
        return {key: _without_places(one) for key, one in kept.items() if key not in ("sourcePosition", "stackTrace")}
    return [_without_places(one) for one in cast(list[Any], value)] if isinstance(value, list) else value


def _asked(request: Request) -> dict[str, Any]:
    """A request as it was sent, so that an emulator of any age can be asked for it again."""
    message = messages.plain(request.message)
    message.pop("createTime")
    return {"name": message.pop("name"), "message": message}


def _write(file: Path, document: Any, values: Mapping[str, str], clone: Clone) -> None:
    file.write_text(templated(json.dumps(document, indent=1, sort_keys=True), values, clone) + "\n")


if __name__ == "__main__":
    assert sys.argv[1] == "record", __doc__
    os.environ.pop("PULUMI_BACKEND_URL", None)
    with tempfile.TemporaryDirectory() as scratch:
        _record(sys.argv[2], Path(scratch))
