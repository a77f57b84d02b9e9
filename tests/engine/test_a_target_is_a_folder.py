"""A target is a folder and a line in the registry: a copy of the tree gets two, and every command works with them.

`demo-vm` declares Compute Engine instances, which the stand-in for Google's plugin makes. `demo-cluster` has no Google
project: a directory stands for somebody's own cluster, for whose GPUs it pays. Neither has a word about money or fit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.emulators.object_store import ObjectStore
from tests.engine.clone import Clone, said

STACK = "demo-vm-v6e-8"
CLUSTER = "demo-cluster-h100-1"
HERE = Path(__file__).parent
_HOME = os.environ["HOME"]
MODEL = {"model_name": "llama2-7b", "per_device_batch_size": 1, "max_target_length": 2048}
LARGE = MODEL | {"per_device_batch_size": 128}
# As a compile for each would have left them, which takes half a minute: tests/engine/test_fit.py has one.
_ANSWERS = """
import dataclasses, sys
from infra.preview.fit import cache, gpu_target
from infra.preview.fit.train_step import of_stack
for batch, peak in ((1, 14.0), (128, 300.0)):
    asked = of_stack(sys.argv[1], {"per_device_batch_size": batch}).request
    compiled = dataclasses.replace(asked.unknown(""), hbm_gib=asked.gpu.hbm_gib, peak_gib=peak, tflops_per_device=90.0)
    cache.keep(gpu_target.judged(compiled))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """With the folders, the registry's lines, and a stack file that `slipway stack new` has written."""
    clone = Clone.make(tmp_path_factory.mktemp("folder") / "clone")
    targets = clone.directory / "infra" / "targets"
    for demo in ("demo_vm", "demo_cluster"):
        (targets / demo).mkdir()
        for part in (HERE / demo).glob("*.py.txt"):
            (targets / demo / part.name.removesuffix(".txt")).write_text(part.read_text())
    registry, line = targets / "registry.py", '    FOUNDATION = "foundation"\n'
    assert registry.read_text().count(line) == 1
    demos = '    DEMO_VM = "demo-vm"\n    DEMO_CLUSTER = "demo-cluster"\n'
    registry.write_text(registry.read_text().replace(line, line + demos))
    keys = clone.make_goal("keys")
    assert keys.returncode == 0, said(keys)
    new = "stack new v6e-8 --target demo-vm --zone us-east5-b --project try-it"
    written = clone.run("slipway", *new.split())
    assert written.returncode == 0, said(written)
    assert f"stacks/Pulumi.{STACK}.yaml is written" in written.stdout
    return clone


@pytest.fixture
def cluster(clone: Clone, tmp_path: Path) -> Path:
    """A cluster, and a stack of one node with 8 GPUs in it."""
    settings(clone, tmp_path)
    kept = clone.run("python", "-c", _ANSWERS, CLUSTER)
    assert kept.returncode == 0, said(kept)
    return tmp_path


def settings(clone: Clone, cluster: Path, **changes: Any) -> None:
    values: dict[str, Any] = {"target": "demo-cluster", "accelerator": "h100-1", "cluster": str(cluster), "steps": 100}
    values |= {"owner": "me@example.com", "data": "synthetic", "price_usd_per_chip_hour": 2.7, "training": MODEL}
    config = {f"slipway:{key}": value for key, value in (values | changes).items()}
    path = clone.directory / "stacks" / f"Pulumi.{CLUSTER}.yaml"
    salt = yaml.safe_load(path.with_name("Pulumi.local.yaml").read_text())["encryptionsalt"]
    path.write_text(yaml.safe_dump({"encryptionsalt": salt, "config": config}))


@pytest.fixture(autouse=True)
def stand_ins(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Google's plugin and its buckets, on this machine."""
    root = tmp_path_factory.mktemp("google")
    with ObjectStore(root / "buckets", ("slipway-artifacts-us-east5-try-it",)) as store:
        monkeypatch.setenv("HOME", str(root))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        monkeypatch.setenv("SLIPWAY_STANDIN_STATE", str(root / "state"))
        yield


@pytest.mark.sample(0)  # a run of pytest and one of pyright over the copy
def test_no_other_file_changes(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The types, the arrows and the engine's list of keys hold with two more targets."""
    assert "cluster:\n" in (clone.directory / "Pulumi.yaml").read_text()
    tests = ["tests/unit/test_layers.py", "tests/unit/test_project_schema.py", "-p", "no:cacheprovider"]
    held = clone.run("python", "-m", "pytest", *tests, "-k", "not pulumi_sdk and not training")
    assert held.returncode == 0, said(held)
    monkeypatch.setenv("HOME", _HOME)  # where pyright's own files are
    typed = clone.run("pyright", "infra/targets/demo_vm", "infra/targets/demo_cluster")
    assert typed.returncode == 0, said(typed)


def test_a_target_without_a_word_about_money_is_stopped_by_its_limits(clone: Clone, cluster: Path) -> None:
    settings(clone, cluster, max_usd_per_hour=1)
    limit = "an hour costs $21.60 = 8 chips x $2.7, max_usd_per_hour is 1.00 in "
    assert limit in said(clone.run("slipway", "preview", CLUSTER))
    assert limit in said(clone.pulumi("preview", CLUSTER))
    assert limit in said(clone.pulumi("up", CLUSTER))
    settings(clone, cluster, max_chips=1)
    assert "has 8 chips, max_chips is 1" in said(clone.run("slipway", "preview", CLUSTER))
    settings(clone, cluster, max_usd_per_hour=30, price_usd_per_chip_hour="")
    assert "what an hour costs is unknown: no source prices on-demand h100" in said(clone.pulumi("up", CLUSTER))
    settings(clone, cluster, training=LARGE)
    assert "llama2-7b does not fit h100-1: out of memory: " in said(clone.run("slipway", "preview", CLUSTER))
    assert not any(cluster.iterdir()), "nothing was made"


def test_a_target_without_google(clone: Clone, cluster: Path) -> None:
    preview = clone.run("slipway", "preview", CLUSTER)
    assert preview.returncode == 0, said(preview)
    assert f"{CLUSTER}: 8 chips = 1 slice x 1 host x 8" in preview.stdout
    assert "  fit     14.00 of 67.24 GiB HBM (21%); step at least " in preview.stdout
    assert "$21.60 = 8 chips x $2.70 (price_usd_per_chip_hour of the stack)" in preview.stdout
    assert "quota" not in preview.stdout
    up = clone.pulumi("up", CLUSTER)
    assert up.returncode == 0, said(up)
    assert clone.status(CLUSTER)["phase"] == "training"
    stop, watch = clone.run("slipway", "stop", CLUSTER), clone.run("slipway", "watch", CLUSTER)
    start = clone.run("slipway", "start", CLUSTER)
    assert f"{CLUSTER}: interrupted at step" in stop.stdout
    assert (watch.returncode, watch.stdout.splitlines()[:2]) == (
        1,
        [f"{CLUSTER} host 0 · interrupted", f"{CLUSTER} interrupted"],
    )
    assert f"slipway start {CLUSTER}" in watch.stdout
    assert f"{CLUSTER}: started" in start.stdout
    assert '"phase": "training"' in clone.run("slipway", "logs", CLUSTER).stdout
    (node,) = (cluster / "nodes").iterdir()
    lost = node.with_name(f"{node.stem}9.json")  # as a killed `up` leaves one
    lost.write_text(node.read_text())
    others = node.with_name(f"{node.stem}8.json")
    kept = json.loads(node.read_text())
    others.write_text(json.dumps(kept | {"state": f"{kept['state']}0"}))
    orphans = clone.run("slipway", "orphans", str(cluster))
    assert f"{cluster}: 3 with our label, 0 of no stack of this backend" in orphans.stdout, said(orphans)
    destroy = clone.pulumi("destroy", CLUSTER)
    assert destroy.returncode == 0, said(destroy)
    assert f"deleted {lost}, which the state did not know" in said(destroy)
    assert list((cluster / "nodes").iterdir()) == [others], "another state's is out of its reach"
    delete = clone.run("slipway", "orphans", str(cluster), "--owner", "me@example.com", "--delete")
    assert f"deleted {others}" in delete.stdout, said(delete)
    for verb, sentence in (
        (("purge", CLUSTER), f"the target of stack '{CLUSTER}' does not offer `purge`"),
        (("backend", "init", CLUSTER), "target demo-cluster has no bucket for Pulumi's state"),
        (("logs", STACK), f"the target of stack '{STACK}' does not offer `logs`"),
    ):
        left_out = clone.run("slipway", *verb)
        assert (left_out.returncode, left_out.stderr.count("\n")) == (2, 1), said(left_out)
        assert left_out.stderr.startswith(f"error: {sentence}")


def test_a_new_stack_has_the_keys_of_its_target_alone(clone: Clone) -> None:
    words = "stack new h100-1 --target demo-cluster --variant new --set cluster=/a/cluster"
    new = clone.run("slipway", *words.split())
    assert new.returncode == 0, said(new)
    path = clone.directory / "stacks" / f"Pulumi.{CLUSTER}.new.yaml"
    config = yaml.safe_load(path.read_text())["config"]
    path.unlink()
    assert config["slipway:cluster"] == "/a/cluster"
    assert not config.keys() & {"slipway:project", "slipway:zones"}


def test_what_is_paid_for_says_what_is_billed(clone: Clone, cluster: Path) -> None:
    contract = clone.directory / "infra" / "targets" / "demo_cluster" / "__init__.py"
    whole = contract.read_text()
    contract.write_text(whole.replace("PaidContract", "TrainingContract"))
    preview = clone.pulumi("preview", CLUSTER)
    contract.write_text(whole)
    assert preview.returncode != 0
    assert "stacks of target demo-cluster are paid for, but it does not say what is billed" in said(preview)


def test_what_is_paid_for_is_declared_behind_a_guard(clone: Clone, cluster: Path) -> None:
    declare = clone.directory / "infra" / "targets" / "demo_cluster" / "declare.py"
    whole = declare.read_text()
    line = next(line for line in whole.splitlines() if "guard = StackGuard(" in line)
    declare.write_text(
        whole.replace(line, "    guard = None").replace("depends_on=[guard]", "").replace("guard.identity", "''")
    )
    preview = clone.pulumi("preview", CLUSTER)
    declare.write_text(whole)
    assert preview.returncode != 0
    assert "slipway:demo:Node 'node-0' is declared before the stack's guard" in said(preview)


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
    (instance,) = Path(os.environ["SLIPWAY_STANDIN_STATE"], "compute", "Instance").iterdir()
    lost = instance.with_name("lost.json")  # as a killed `up` leaves one
    lost.write_text(instance.read_text())
    destroy = clone.pulumi("destroy", STACK, "--yes")
    assert destroy.returncode == 0, said(destroy)
    assert "deleted lost.json, which the state did not know" in said(destroy)


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


def test_doctor_asks_of_this_machine_what_a_target_needs_of_it(clone: Clone, cluster: Path) -> None:
    def finding() -> tuple[str, str]:
        asked = json.loads(clone.run("slipway", "doctor", CLUSTER, "--json").stdout)
        return next((each["verdict"], each["said"]) for each in asked if each["what"] == "cluster")

    assert finding() == ("ok", f"{cluster} is reached from here")
    settings(clone, cluster / "moved")
    assert finding() == (
        "wrong",
        f"there is no {cluster / 'moved'}; write the directory of a cluster as `slipway:cluster`",
    )


def test_an_unknown_key_is_a_sentence_about_its_keys(clone: Clone) -> None:
    path = clone.directory / "stacks" / "Pulumi.demo-vm-v6e-8.wrong.yaml"
    path.write_text((path.with_name(f"Pulumi.{STACK}.yaml")).read_text() + "  slipway:zonse: [a]\n")
    shown = clone.run("slipway", "preview", "demo-vm-v6e-8.wrong")
    path.unlink()
    assert shown.returncode == 2
    assert "zonse" in shown.stderr
