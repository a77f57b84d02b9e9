"""What a release has left behind is what today's Slipway finds: an upgrade alone plans nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.preview.planned_changes import changes
from tests.engine import states
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import emulated
from tests.golden_files import check_golden

RELEASES = sorted(folder.name for folder in states.DIRECTORY.iterdir())


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
def test_slices_preview_without_a_change_but_a_run_record(clone: Clone, tmp_path: Path, release: str) -> None:
    """0.1.0 kept no record of what trains in the cloud: two models could write under one name."""
    with emulated(tmp_path, [states.LIKE]) as api:
        stack = states.restore(clone, "tpu-vm", release, api)
        preview = clone.pulumi("preview", stack, "--json")
        assert preview.returncode == 0, said(preview)
        assert [(one.action, one.resource) for one in changes(preview.stdout)] == [("create", "slipway:run:Run run")]


@pytest.mark.parametrize("release", RELEASES)
def test_a_foundation_previews_without_touching_what_is_there(clone: Clone, release: str) -> None:
    stack = states.restore(clone, "foundation", release)
    preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    planned = sorted(f"{change.action} {change.resource}" for change in changes(preview.stdout))
    check_golden(f"foundation-{release}-upgrade.txt", "".join(f"{line}\n" for line in planned))
    assert not [line for line in planned if not line.startswith("create ")]
