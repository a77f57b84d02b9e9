"""What a run's record keeps of the code: real git, and the clone made again from commit and patch."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from infra.host_software import bundle
from infra.runs import code_state, records
from infra.runs.code_state import CodeState
from infra.runs.run_plan import run_spec
from infra.stack_file.settings import from_file


def git(directory: Path, *arguments: str) -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environment = os.environ | dict.fromkeys(names, "somebody")
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def write(root: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "a clone"
    root.mkdir()
    git(root, "init", "--quiet")
    write(
        root,
        **{
            "training/__init__.py": "",
            "training/trainer.py": "RATE = 1\n",
            "training/gone.py": "",
            "infra/stack_file/settings.py": "",
            "uv.lock": "",
            ".gitignore": "scratch*\n/.slipway/\n",
        },
    )
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "all")
    return root


def kept(clone: Path) -> tuple[CodeState, Path]:
    """The state, and a clone of the commit with the patch applied."""
    place = clone / ".slipway" / "run"
    place.mkdir(parents=True, exist_ok=True)
    state, patch = code_state.code_state(clone)
    again = clone.parent / "again"
    git(clone.parent, "clone", "--quiet", str(clone), str(again))
    assert git(again, "rev-parse", "HEAD").strip() == state.commit
    if state.uncommitted:
        (place / state.uncommitted).write_bytes(patch)
        git(again, "apply", str(place / state.uncommitted))
    return state, again


def test_a_clean_clone_is_its_commit(clone: Path) -> None:
    state, _ = kept(clone)
    assert (state.uncommitted, state.left_out) == (None, ())


def test_files_that_git_does_not_know_and_the_bundle_ships_are_in_the_patch(clone: Path) -> None:
    """The incident: a new module of training/ trained on every host, and no record had it."""
    write(
        clone,
        **{
            "training/trainer.py": "RATE = 2\n",
            "training/new.py": "NEW = True\n",
            "training/scratch.py": "IGNORED = 'and shipped'\n",
            "training/scratch/notes.txt": "ignored, and not shipped",
            "training/patches/maxtext-1/0003-more.patch": "--- a\n",
            "training/'odd' name \N{SNOWMAN}.sh": "true\n",
            "training/no utf-8.py": b"# caf\xe9\0\xff\n",
            "models/wide.yml": "base_emb_dim: 8\n",
            "corpus/text.txt": "not shipped",
        },
    )
    (clone / "training" / "gone.py").unlink()
    _, again = kept(clone)
    ours, theirs = clone / "training", again / "training"
    assert bundle.sources(theirs) == bundle.sources(ours)
    assert "new.py" in bundle.sources(ours) and "scratch.py" in bundle.sources(ours)
    for name in (*bundle.sources(ours), "patches/maxtext-1/0003-more.patch", "../models/wide.yml"):
        assert (theirs / name).read_bytes() == (ours / name).read_bytes(), name
    assert not (theirs / "gone.py").exists() and not (theirs / "scratch").exists()
    assert not (again / "corpus").exists()


def test_a_change_in_the_second_in_which_git_looked_last_is_seen(clone: Path) -> None:
    """git compares sizes and seconds, and looks into files that are as young as its index: so must a copy of that."""
    trainer, then = clone / "training" / "trainer.py", (1.7e9, 1.7e9)
    git(clone, "config", "core.trustctime", "false")  # no test can set that time
    os.utime(trainer, then)
    git(clone, "add", ".")
    trainer.write_text("RATE = 2\n")
    for path in (trainer, clone / ".git" / "index"):
        os.utime(path, then)
    _, again = kept(clone)
    assert (again / "training" / "trainer.py").read_text() == "RATE = 2\n"


def test_the_clones_own_index_stays(clone: Path) -> None:
    write(clone, **{"training/staged.py": "A = 1\n", "training/new.py": "B = 1\n"})
    git(clone, "add", "training/staged.py")
    write(clone, **{"training/staged.py": "A = 2\n"})
    before = git(clone, "status", "--porcelain"), (clone / ".git" / "index").read_bytes()
    _, again = kept(clone)
    assert (git(clone, "status", "--porcelain"), (clone / ".git" / "index").read_bytes()) == before
    assert (again / "training" / "staged.py").read_text() == "A = 2\n"
    assert (again / "training" / "new.py").read_text() == "B = 1\n"


def test_what_is_too_large_is_named(clone: Path) -> None:
    write(clone, **{"training/weights.py": b"#" * (code_state.FILE_BYTES + 1), "training/new.py": "B = 1\n"})
    state, again = kept(clone)
    assert state.left_out == ("training/weights.py (1,048,577 bytes)",)
    assert (again / "training" / "new.py").exists() and not (again / "training" / "weights.py").exists()


def test_many_files_are_bounded_together_and_named_up_to_a_number(clone: Path) -> None:
    write(clone, **{f"training/f{number:02}.py": b"#" * code_state.FILE_BYTES for number in range(40)})
    state, again = kept(clone)
    assert len(bundle.sources(again / "training")) == 3 + 10
    assert state.left_out[0] == "training/f10.py (1,048,576 bytes)"
    assert state.left_out[-1] == "10 files more" and len(state.left_out) == 21


def test_a_file_that_git_cannot_read_is_named_and_the_changes_are_kept(clone: Path) -> None:
    """A filter of the operator's, which is not installed here: git adds nothing of it, and diffs nothing."""
    write(clone, **{"training/odd.py": "A = 1\n", "training/trainer.py": "RATE = 2\n"})
    write(clone / ".git" / "info", attributes="odd.py filter=gone\n")
    for name, value in (("clean", "false"), ("required", "true")):
        git(clone, "config", f"filter.gone.{name}", value)
    state, again = kept(clone)
    assert state.left_out == ("training/odd.py (git refuses it)",)
    assert (again / "training" / "trainer.py").read_text() == "RATE = 2\n"


def test_a_clone_within_the_clone_is_no_file_of_it(clone: Path) -> None:
    inner = clone / "training" / "vendored"
    write(inner, **{"notes.yml": "a: 1\n"})
    git(inner, "init", "--quiet")
    git(inner, "add", ".")
    git(inner, "commit", "--quiet", "--message", "theirs")
    write(clone, **{"training/new.py": "B = 1\n"})
    state, again = kept(clone)
    assert (state.left_out, (again / "training" / "new.py").exists()) == ((), True)
    assert not (again / "training" / "vendored").exists()


def test_a_clone_whose_index_is_gone_still_gives_its_code_back(clone: Path) -> None:
    (clone / ".git" / "index").unlink()
    write(clone, **{"training/trainer.py": "RATE = 2\n"})
    _, again = kept(clone)
    assert bundle.sources(again / "training") == bundle.sources(clone / "training")
    assert (again / "training" / "trainer.py").read_text() == "RATE = 2\n"
    assert not (clone / ".git" / "index").exists()


def test_settings_of_the_operator_and_of_a_hook_do_not_reach_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("noprefix", "true"), ("external", "false"), ("mnemonicPrefix", "true")):
        git(clone, "config", f"diff.{name}", value)
    git(clone, "config", "color.ui", "always")
    monkeypatch.setenv("GIT_DIR", str(clone.parent / "another"))
    write(clone, **{"training/new.py": "B = 1\n"})
    state, patch = code_state.code_state(clone)
    monkeypatch.delenv("GIT_DIR")
    assert state.uncommitted
    (clone.parent / "patch").write_bytes(patch)
    git(clone, "stash", "--quiet", "--include-untracked")
    git(clone, "apply", str(clone.parent / "patch"))
    assert (clone / "training" / "new.py").read_text() == "B = 1\n"


def test_what_is_no_checkout_has_no_state(tmp_path: Path) -> None:
    assert code_state.code_state(tmp_path) == (CodeState(None, None), b"")


def test_the_record_has_it(clone: Path, tmp_path: Path) -> None:
    write(clone, **{"training/new.py": "B = 1\n"})
    spec = run_spec(from_file("local"), tmp_path / "runs", None)
    records.enter(spec, records.Installed("w", "b"), clone)
    run = Path(records.location(spec))
    (start,) = (run / "starts").iterdir()
    state = json.loads(start.read_text())["code"]
    assert dataclasses.asdict(CodeState(**state)) == state | {"left_out": []}
    assert "+B = 1" in (run / state["uncommitted"]).read_text()
