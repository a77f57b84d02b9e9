"""What `slipway emulate tpu` has for the stacks of a clone before anything is deployed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra import paths
from infra.artifacts.layout import SUMS
from infra.emulators import emulated_cloud
from infra.paths import STACKS
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import every


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
