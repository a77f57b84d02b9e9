"""Target tpu-vm through the real engine: previews need no account and no network, and what a change changes is known.

The request's own life is in the tests of the TPU emulator.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra import names
from infra.emulators.tpu_api import TpuApi
from infra.preview.planned_changes import changes
from infra.preview.stack_plan import decide
from infra.providers.resource import OnChange, Resource
from infra.providers.run_resource import RunResource
from infra.providers.stored_bundle_resource import StoredBundleResource
from infra.providers.stored_wheelhouse_resource import StoredWheelhouseResource
from infra.runs.stored_data import push_prepared, stored_manifest
from infra.stack_file.settings import any_from_file, stack_names
from infra.targets.tpu_vm.declare import slice_args
from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from infra.targets.tpu_vm.settings import TpuVmSettings
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import PROJECT, emulated, settings_of, write
from tests.golden_files import check_golden
from tests.python_archive import python_archive
from tests.unit.test_prepared_data import prepared

SIZES = [name for name in stack_names() if isinstance(any_from_file(name), TpuVmSettings)]
SHAPES = [
    "v6e-8",
    "v6e-8x16",
    "v6e-32.spot",
]  # one host, slices of several, preemptible; one slice has a life of its own
READS_TEXT = "v6e-8"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("tpu-vm") / "clone")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No account, and a proxy that answers nobody."""
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):  # gRPC reads the second alone, and the program asks its engine by gRPC
        monkeypatch.setenv(variable, "127.0.0.1,localhost")
    monkeypatch.setenv("HOME", str(tmp_path))


def declared_by(preview: str, stack: str) -> None:
    """Every stack declares the same eight resources."""
    assert {change.resource: change.action for change in changes(preview)} == {
        f"pulumi:pulumi:Stack slipway-{stack}": "create",
        f"slipway:tpu:Slice {stack}": "create",
        "slipway:tpu:StackGuard guard": "create",
        "slipway:artifacts:Wheelhouse wheelhouse": "create",
        "slipway:artifacts:Bundle bundle": "create",
        "slipway:run:Run run": "create",
        "slipway:tpu:QueuedResource request": "create",
        "slipway:tpu:SliceReady ready": "create",
    }


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("stack", ["v6e-8", "v6e-32.spot"])
def test_a_stack_previews_offline_without_an_account(clone: Clone, stack: str) -> None:
    preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    declared_by(preview.stdout, stack)


@pytest.mark.usefixtures("offline")
def test_a_second_preview_plans_the_same(clone: Clone) -> None:
    previews = [clone.pulumi("preview", "v6e-8x32", "--json").stdout for _ in range(2)]
    declared_by(previews[0], "v6e-8x32")
    plans = [json.loads(preview)["steps"] for preview in previews]
    inputs = [{step["urn"]: step["newState"].get("inputs") for step in steps} for steps in plans]
    assert inputs[0] == inputs[1]
    request = next(value for urn, value in inputs[0].items() if urn.endswith("::request"))
    assert (request["nodes"], request["zones"]) == (32, ["us-east5-b", "us-east5-a"])


@pytest.mark.usefixtures("offline")
def test_the_preview_says_size_place_cost_and_quota(clone: Clone) -> None:
    shown = said(clone.pulumi("preview", "v6e-32", "--color", "never"))
    for fact in (
        "v6e-32: 32 chips = 1 slice x 8 hosts x 4 (v6e-32, 4x8, ct6e-standard-4t)",
        "mesh    fsdp 32 (ICI)",
        "zones   us-east5-b, us-east5-a (tried in this order)",
        "$/hour  $86.40 = 32 chips x $2.70",
        "quota   TPUV6EPerProjectPerZoneForTPUAPI: 32 chips in us-east5-b or us-east5-a",
    ):
        assert fact in shown
    write(clone, "v6e-32.limit", max_usd_per_hour=80)
    stopped = clone.pulumi("preview", "v6e-32.limit")
    assert stopped.returncode != 0
    assert "an hour costs $86.40 = 32 chips x $2.7, max_usd_per_hour is 80.00" in said(stopped)
    assert "Traceback" not in said(stopped)


# --- what a change changes ---

RESOURCES: dict[str, Resource[Any]] = {
    "guard": TpuStackGuardResource(),
    "wheelhouse": StoredWheelhouseResource(),
    "bundle": StoredBundleResource(),
    "run": RunResource(),
    "request": TpuRequestResource(),
    "ready": SliceReadyResource(),
}
# One other value for each key of a stack.
OTHER: dict[str, Any] = {
    "accelerator": "v6e-64",
    "slices": 2,
    "steps": 2000,
    "run_name": "another",
    "loss_spike": 3.0,
    "training": {"model_name": "llama2-7b"},
    "data_options": {"vocab_size": 8192},
    "python_archive": "",  # a file, which the test makes
    "artifacts": "gs://another",
    "artifacts_on_hosts": "/mnt/artifacts",
    "runs": "gs://another",
    "project": "another-project",
    "owner": "you@example.com",
    "prefix": "other",
    "zones": ["us-east5-a"],
    "tier": "spot",
    "reservation": "mine",
    "min_duration": "12h",
    "valid_until": "6h",
    "valid_after": "2026-12-01T00:00:00Z",
    "runtime_version": "v2-another",
    "network": "projects/p/global/networks/n",
    "subnet": "projects/p/regions/us-east5/subnetworks/s",
    "service_account": "sa@p.iam.gserviceaccount.com",
    "labels": {"team": "a"},
    "tags": ["tpu"],
    "data_disks": [{"source_disk": "d", "mode": "read-only"}],
    "data_on_hosts": "disk",
    "host_secrets": ["wandb"],
    "max_chips": 500,
    "max_usd_per_hour": 500,
    "max_usd_per_run": 500,
    "max_runtime": "1h",
    "price_usd_per_chip_hour": 1,
    "fit": "unchecked",
    "fit_timeout_s": 60,
    "wait": False,
    "wait_deadline": "2h",
    "take_over": "2bd806-ff87583baecf-0aa406747ae5",
    "allow": ["owner-labels"],
}
# What must be so before, where a key goes with others.
BEFORE: dict[str, dict[str, Any]] = {
    "reservation": {"tier": "reserved", "zones": ["us-east5-b"], "reservation": "theirs"},
    "min_duration": {"tier": "guaranteed"},
    "network": {"network": "n", "subnet": "s"},
    "subnet": {"network": "n", "subnet": "s"},
    "data_on_hosts": {
        "data": f"gs://bucket/{16 * '0'}",
        "training": {"model_name": "default", "per_device_batch_size": 1, "max_target_length": 2048},
        "data_disks": [{"source_disk": "d", "mode": "read-only"}],
    },
}
FIXED = {"stack", "target", "data", "region", "model_file", "channel", "overlay"}  # other stacks, or files of one's own


def declared(stack: str, **changed: Any) -> dict[str, Any]:
    """The inputs of every resource."""
    settings = settings_of(stack, **{"max_chips": 2000, "max_usd_per_hour": 1e6} | changed)
    args = dataclasses.asdict(slice_args(decide(settings)))
    prepared = args.pop("prepared")
    software = prepared.pop("software")
    return args | prepared | software


@pytest.mark.parametrize("stack", ["v6e-32", "v6e-8x16"])
def test_a_change_of_one_field_changes_what_the_golden_file_names(stack: str, tmp_path: Path) -> None:
    """Of every key: which resources, in place or anew, because of which inputs."""
    allowed = set(OTHER) | FIXED
    assert set(TpuVmSettings.model_fields) == allowed, "a new key: give it another value here"
    lines: list[str] = []
    for key, value in (OTHER | {"python_archive": str(python_archive(tmp_path))}).items():
        if key == "allow":
            continue  # a rule's name: guardrails only
        before = BEFORE.get(key, {})
        before, after = declared(stack, **before), declared(stack, **before | {key: value})
        lines.append(f"{key}:")
        for field, resource in RESOURCES.items():
            changed = resource.changes(before[field], after[field])
            if changed:
                action = "replace" if OnChange.REPLACE in changed.values() else "update"
                lines.append(f"  {action} {field} ({', '.join(sorted(changed))})")
        if lines[-1] == f"{key}:":
            lines[-1] = f"{key}: nothing"
    check_golden(f"changes/{stack}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("stack", SIZES)
def test_every_stack_declares_what_the_provider_takes(stack: str) -> None:
    inputs = declared(stack)
    told = {field: resource.check(inputs[field]) for field, resource in RESOURCES.items()}
    assert not any(told.values()), told


# --- with a cloud ---


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpuApi]:
    with emulated(tmp_path_factory.mktemp("cloud"), [*SHAPES, "v6e-32"]) as api:
        yield api


def made_after(clone: Clone, stack: str) -> dict[str, set[str]]:
    """Of each resource of ours by name, those that it waits for."""
    return {
        one["urn"].rpartition("::")[2]: {urn.rpartition("::")[2] for urn in one.get("dependencies", ())}
        for one in clone.resources(stack)
        if one["custom"] and one["type"].startswith("slipway:")
    }


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, cloud: TpuApi) -> dict[str, Any]:
    """Keys of a stack whose text lies in the foundation's bucket, from elsewhere."""
    assert cloud
    root = tmp_path_factory.mktemp("text")
    (root / "corpus").mkdir()
    (root / "corpus" / "a.txt").write_text("some text\n")
    bucket = names.of(PROJECT, "us-east5", "slipway").data_bucket
    httpx.post(f"{os.environ['STORAGE_EMULATOR_HOST']}/storage/v1/b", json={"name": bucket}).raise_for_status()
    url, _ = push_prepared(prepared(root, root / "corpus"), f"gs://{bucket}/prepared", lambda key, done: None)
    training = {"per_device_batch_size": 1, "max_target_length": 64}
    return {"data": url, "training": training, "fit": "unchecked"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("stack", SHAPES)
def test_life_of_a_shape(clone: Clone, cloud: TpuApi, text: dict[str, Any], stack: str) -> None:
    """up, nothing to do, a change, refresh, destroy; of the others see test_every_stack_declares_..."""
    mine = f"{stack}x"
    reads = text if stack == READS_TEXT else {}
    write(clone, mine, like=stack, project=PROJECT, **reads)
    up = clone.pulumi("up", mine, "--color", "never")
    assert up.returncode == 0, said(up)
    before = {"data": {"guard"}} if reads else {}
    assert f"+ {8 + len(before)} created" in said(up)
    assert made_after(clone, mine) == {
        "guard": set(),
        "wheelhouse": {"guard"},
        "bundle": {"guard"},
        **before,
        "run": {"guard", *before},
        "request": {"guard", "wheelhouse", "bundle", "run", *before},
        "ready": {"guard", "request"},
    }
    again = clone.pulumi("preview", mine, "--expect-no-changes", "--color", "never")
    assert again.returncode == 0, said(again)
    (request,) = [
        name for name in cloud.cloud.ledger.requests if name.endswith(f"/slipway-{stack.replace('.', '--')}x")
    ]

    write(clone, mine, like=stack, project=PROJECT, labels={"team": "a"}, **reads)
    changed = clone.pulumi("up", mine, "--color", "never")
    assert changed.returncode == 0, said(changed)
    assert "~ 1 updated" in said(changed)
    if stack.endswith(".spot"):
        cloud.cloud.levers.preempt(request)
    refreshed = clone.pulumi("refresh", mine, "--yes", "--skip-preview", "--color", "never")
    assert refreshed.returncode == 0, said(refreshed)
    outputs = next(one["outputs"] for one in clone.resources(mine) if one["urn"].endswith("::request"))
    assert outputs["state"] == ("SUSPENDED" if stack.endswith(".spot") else "ACTIVE")
    destroyed = clone.pulumi("destroy", mine)
    assert destroyed.returncode == 0, said(destroyed)
    assert request not in cloud.cloud.ledger.requests
    assert not reads or stored_manifest(reads["data"]), "text outlives its stack"


def test_up_then_nothing_to_do_then_a_change_then_nothing_left(clone: Clone, cloud: TpuApi) -> None:
    write(clone, "v6e-32.life", project=PROJECT)
    up = clone.pulumi("up", "v6e-32.life")
    assert up.returncode == 0, said(up)
    request = next(name for name in cloud.cloud.ledger.requests if name.endswith("--life"))
    assert request.endswith("/locations/us-east5-b/queuedResources/slipway-v6e-32--life")

    again = clone.pulumi("preview", "v6e-32.life", "--expect-no-changes")
    assert again.returncode == 0, said(again)

    write(clone, "v6e-32.life", project=PROJECT, labels={"team": "a"})
    labelled = clone.pulumi("preview", "v6e-32.life", "--json")
    assert [(one.action, one.resource, one.because) for one in changes(labelled.stdout)] == [
        ("update", "slipway:tpu:QueuedResource request", ("labels",)),
    ]
    write(clone, "v6e-32.life", project=PROJECT, tier="spot")
    spot = clone.pulumi("preview", "v6e-32.life", "--color", "never")
    assert "tier replaces: the queue serves a request on the terms it was made with" in said(spot)
    replaced = clone.pulumi("up", "v6e-32.life")
    assert replaced.returncode == 0, said(replaced)
    assert request in cloud.cloud.ledger.requests, "the old one was gone before the new one was asked for"

    destroyed = clone.pulumi("destroy", "v6e-32.life")
    assert destroyed.returncode == 0, said(destroyed)
    left = (*cloud.cloud.ledger.requests, *cloud.cloud.ledger.nodes)
    assert [name for name in left if "--life" in name] == []


def test_up_without_a_foundation_stops_before_anything_is_made(clone: Clone, cloud: TpuApi) -> None:
    write(clone, "v6e-32.bare", project=PROJECT, prefix="bare")
    assert clone.pulumi("preview", "v6e-32.bare").returncode == 0, "a preview asks nobody"
    calls = len(cloud.calls)
    refused = clone.pulumi("up", "v6e-32.bare", "--color", "never")
    assert refused.returncode != 0
    assert "there is no foundation in us-east5 yet: no bucket gs://bare-artifacts-us-east5-real-project; " in said(
        refused
    )
    assert "run: pulumi up --stack foundation.us-east5" in said(refused)
    assert "Traceback" not in said(refused)
    assert len(cloud.calls) == calls
    made = [resource["type"] for resource in clone.resources("v6e-32.bare")]
    assert [kind for kind in made if not kind.startswith("pulumi:")] == []


def test_up_refuses_the_placeholder_project(clone: Clone, cloud: TpuApi) -> None:
    write(clone, "v6e-32.nobodys")
    calls = len(cloud.calls)
    refused = clone.pulumi("up", "v6e-32.nobodys")
    assert refused.returncode != 0
    assert "project is still 'my-project', which only previews; write your own in stacks/Pulumi." in said(refused)
    assert len(cloud.calls) == calls
