"""What `slipway emulate tpu` has for the stacks of a clone before anything is deployed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from infra import emulated, paths
from infra.artifacts.layout import SUMS, object_key, wheelhouse_key
from infra.emulators import emulated_cloud
from infra.emulators.tpu_hosts.view import SharedDirectory
from infra.host_software.derive import wheelhouse
from infra.paths import STACKS
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import check, every


def test_a_stack_that_cannot_be_used_and_one_that_trains_here_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks, root = tmp_path / "stacks", tmp_path / "buckets"
    stacks.mkdir()
    for stack in ("v5e-8", "v6e-8", "v6e-32", "local"):
        shutil.copy(STACKS / f"Pulumi.{stack}.yaml", stacks)
    for stack in ("a-typo", "v6e-16"):
        (stacks / f"Pulumi.{stack}.yaml").write_text("config: {slipway:target: moon}")
    monkeypatch.setattr(stack_settings, "STACKS", stacks)
    monkeypatch.setattr(paths, "STACKS", stacks)

    usable = every(CloudTrainingSettings, skip_unusable=True)
    assert [settings.stack for settings in usable] == ["v5e-8", "v6e-32", "v6e-8"]
    buckets = emulated_cloud.fill(root, usable)
    assert len(buckets) == 4, "stacks of one region share theirs: one for artifacts, one for runs"
    artifacts = {settings.places.artifacts for settings in usable}
    runs = {settings.places.runs.removesuffix(f"/{settings.stack}") for settings in usable}
    assert {f"gs://{bucket}" for bucket in buckets} == artifacts | runs
    assert {f"gs://{path.relative_to(root).parts[0]}" for path in root.rglob(SUMS)} == artifacts


@pytest.mark.parametrize("built", [True, False])
def test_a_stack_whose_hosts_boot_finds_the_wheelhouse_of_this_clone_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    """Where it is not built here `up` builds it and pushes it, as to any bucket."""
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:8470")
    monkeypatch.setattr(emulated_cloud, "ARTIFACTS", tmp_path / "artifacts")
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    settings = check("vcpu-2", values | {"accelerator": "vcpu-2", "zones": ["us-east5-b"]})
    assert isinstance(settings, CloudTrainingSettings)
    assert wheelhouse(settings, "cpu").python, "such a host has none either"
    identifier, digest = wheelhouse(settings, "cpu").id, "0" * 64
    files = {wheelhouse_key(identifier): f"{digest}  a.whl\n", object_key(digest, "a.whl"): "content"}
    for key, text in files.items() if built else ():
        (tmp_path / "artifacts" / key).parent.mkdir(parents=True)
        (tmp_path / "artifacts" / key).write_text(text)
    artifacts, _ = emulated_cloud.fill(tmp_path / "buckets", [settings])
    bucket = tmp_path / "buckets" / artifacts
    found = {str(path.relative_to(bucket)): path.read_text() for path in bucket.rglob("*") if path.is_file()}
    assert found == (files if built else {})


def test_hosts_that_boot_have_directories_of_this_machine_that_their_stack_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:8470")
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    here = {"accelerator": "vcpu-2", "zones": ["us-east5-b"], "runs": str(tmp_path)}
    booting, pretended = check("vcpu-2", values | here), check("v6e-8", values)
    assert isinstance(booting, CloudTrainingSettings) and isinstance(pretended, CloudTrainingSettings)
    shared = emulated_cloud.shared_directories([booting, pretended])
    assert shared == [SharedDirectory(tmp_path / "vcpu-2", is_writable=True)]
