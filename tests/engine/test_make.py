"""`make setup` and `make lock`, which messages advise, as they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.clone import Clone, said
from tests.engine.project import ENGINE
from tests.tree_copy import ROOT, copy_tree


def test_setup_makes_an_environment_and_finds_the_engine(tmp_path: Path) -> None:
    """Of a project without dependencies: those of ours take a minute."""
    clone = tmp_path / "a clone"
    shutil.copytree(ROOT / "tools", clone / "tools")
    for name in ("Makefile", ".python-version"):
        shutil.copy(ROOT / name, clone)
    for folder in ("infra", "training"):
        (clone / folder).mkdir()
    (clone / "pyproject.toml").write_text('[project]\nname = "bare"\nversion = "1"\nrequires-python = "==3.12.*"\n')
    path = os.pathsep.join([str(ENGINE), str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "SLIPWAY_CACHE": str(tmp_path / "cache"), "UV_OFFLINE": "1"}
    subprocess.run(["uv", "lock", "--quiet"], cwd=clone, env=environment, check=True)
    done = subprocess.run(["make", "setup"], cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, said(done)
    assert done.stderr.splitlines()[-1] == "ready"
    assert (clone / ".venv" / "bin" / "python").exists()
    assert (clone / ".venv" / "engine-path").read_text() == f"{ENGINE}\n"


def test_lock_of_what_is_locked_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = Clone(tmp_path / "clone")
    copy_tree(clone.directory, ("env",))
    (clone.directory / "training" / "locks" / "pylock.tpu-stable.toml").unlink()
    monkeypatch.setenv("UV_OFFLINE", "1")
    done = clone.make_goal("lock")
    assert done.returncode == 0, said(done)
    written = [Path("uv.lock"), *(path.relative_to(ROOT) for path in (ROOT / "training").rglob("*lock*.toml"))]
    for name in (*written, Path("training/uv.lock"), Path("training/maxtext_schema.json")):
        assert (clone.directory / name).read_bytes() == (ROOT / name).read_bytes(), name
