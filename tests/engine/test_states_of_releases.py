"""What a release has left behind is what today's Slipway finds: an upgrade alone plans creates that have a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.preview.planned_changes import changes
from tests.engine import states
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import emulated

RELEASES = sorted(folder.name for folder in states.DIRECTORY.iterdir())


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("states") / "clone")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("target", states.STACKS)
@pytest.mark.parametrize("release", RELEASES)
def test_an_upgrade_plans_nothing_but_what_has_a_reason(
    clone: Clone, tmp_path: Path, target: str, release: str
) -> None:
    with emulated(tmp_path, [states.LIKE]) as api:
        stack = states.restore(clone, target, release, api if target == "tpu-vm" else None)
        preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    planned = {(change.action, change.resource) for change in changes(preview.stdout)}
    assert planned == states.explained(target, release)
