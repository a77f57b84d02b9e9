"""What a release has left behind is what today's Slipway finds: an upgrade alone plans nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine import states
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import emulated

RELEASES = sorted(folder.name for folder in states.DIRECTORY.iterdir())
# What a later release gives a foundation beside what it has; everything that was there stays as it is.
FOUNDATION_GAINS: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("states") / "clone")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("release", RELEASES)
def test_a_stack_that_trains_here_previews_without_a_change(clone: Clone, release: str) -> None:
    stack = states.restore(clone, "local", release)
    preview = clone.pulumi("preview", stack, "--expect-no-changes")
    assert preview.returncode == 0, said(preview)


@pytest.mark.parametrize("release", RELEASES)
def test_slices_preview_without_a_change(clone: Clone, tmp_path: Path, release: str) -> None:
    with emulated(tmp_path, [states.LIKE]) as api:
        stack = states.restore(clone, "tpu-vm", release, api)
        preview = clone.pulumi("preview", stack, "--expect-no-changes")
        assert preview.returncode == 0, said(preview)


@pytest.mark.parametrize("release", RELEASES)
def test_a_foundation_previews_without_touching_what_is_there(clone: Clone, release: str) -> None:
    stack = states.restore(clone, "foundation", release)
    preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    steps = [step for step in json.loads(preview.stdout)["steps"] if step["op"] != "same"]
    planned = {f"{step['op']} {step['urn'].rpartition('::')[2]}" for step in steps}
    assert planned == FOUNDATION_GAINS
