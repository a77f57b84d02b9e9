"""A target is a folder and a line in the registry: a copy of the tree gets one, and every command works with it.

The target declares Compute Engine instances, which the stand-in for Google's plugin makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.object_store import ObjectStore
from tests.engine.clone import Clone, said

STACK = "demo-vm-v6e-8"
FOLDER = Path(__file__).parent / "demo_vm"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """With the folder, the registry's line, and a stack file that `slipway stack new` has written."""
    clone = Clone.make(tmp_path_factory.mktemp("folder") / "clone")
    folder = clone.directory / "infra" / "targets" / "demo_vm"
    folder.mkdir()
    for part in FOLDER.glob("*.py.txt"):
        (folder / part.name.removesuffix(".txt")).write_text(part.read_text())
    registry = clone.directory / "infra" / "targets" / "registry.py"
    line = '    FOUNDATION = "foundation"\n'
    assert registry.read_text().count(line) == 1
    registry.write_text(registry.read_text().replace(line, f'{line}    DEMO_VM = "demo-vm"\n'))
    new = "stack new v6e-8 --target demo-vm --zone us-east5-b --project try-it"
    written = clone.run("slipway", *new.split())
    assert written.returncode == 0, said(written)
    assert f"stacks/Pulumi.{STACK}.yaml is written" in written.stdout
    return clone


@pytest.fixture(autouse=True)
def stand_ins(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Google's plugin and its buckets, on this machine."""
    root = tmp_path_factory.mktemp("google")
    with ObjectStore(root / "buckets", ("try-it-slipway-us-east5-artifacts",)) as store:
        monkeypatch.setenv("HOME", str(root))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        monkeypatch.setenv("SLIPWAY_STANDIN_STATE", str(root / "state"))
        yield


def test_preview_up_status_and_destroy(clone: Clone) -> None:
    preview = clone.run("slipway", "preview", STACK)
    assert preview.returncode == 0, said(preview)
    assert f"{STACK}: 8 chips = 1 slice x 1 host x 8" in preview.stdout
    assert "create   gcp:compute/instance:Instance host-0" in preview.stdout
    up = clone.pulumi("up", STACK, "--yes")
    assert up.returncode == 0, said(up)
    status = clone.run("slipway", "status", STACK, "--json")
    assert status.returncode == 0, said(status)
    report = json.loads(status.stdout)
    assert (report["phase"], [host["index"] for host in report["hosts"]]) == ("training", [0])
    assert report["run_directory"].startswith("gs://")
    destroy = clone.pulumi("destroy", STACK, "--yes")
    assert destroy.returncode == 0, said(destroy)


def test_the_table_of_all_stacks(clone: Clone) -> None:
    table = clone.run("slipway", "preview", "--all", "--json")
    assert table.returncode == 0, said(table)
    (row,) = [row for row in json.loads(table.stdout) if row["stack"] == STACK]
    assert (row["target"], row["chips"], row["zones"]) == ("demo-vm", "8", "us-east5-b")


def test_doctor(clone: Clone) -> None:
    asked = clone.run("slipway", "doctor", STACK, "--json")
    findings = {finding["what"]: finding for finding in json.loads(asked.stdout)}
    assert findings["stack file"]["said"] == f"stacks/Pulumi.{STACK}.yaml is a stack of target demo-vm"
    assert findings["credentials"]["verdict"] == "wrong"
    assert {"project", "APIs", "roles", "quota", "foundation"} <= findings.keys()


def test_an_unknown_key_is_a_sentence_about_its_keys(clone: Clone) -> None:
    path = clone.directory / "stacks" / "Pulumi.demo-vm-v6e-8.wrong.yaml"
    path.write_text((path.with_name(f"Pulumi.{STACK}.yaml")).read_text() + "  slipway:zonse: [a]\n")
    shown = clone.run("slipway", "preview", "demo-vm-v6e-8.wrong")
    path.unlink()
    assert shown.returncode == 2
    assert "zonse" in shown.stderr
