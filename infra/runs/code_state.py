"""Which code a run starts with: the commit, and a patch on it with everything else that its hosts get.

`git apply` of the patch on the commit gives the code back: changes, and files that git does not know, which the bundle
ships all the same. Owns what is asked of git; the clone's own index is left alone. Refuses to own the record
(infra/runs/records.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from infra.host_software import bundle

FILE_BYTES = 1 << 20  # of a file that git does not know; a larger one is no source
ALL_BYTES = 10 << 20
_SHIPPED = ("training", "*.yml", "*.yaml")  # patches and locks too; models and stack files lie anywhere
_NAMED = 20  # of what was left out
# Whatever the operator has set for reading diffs, this one is for `git apply`.
_DIFF = ("diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


@dataclass(frozen=True)
class CodeState:
    """`uncommitted` names the patch; all is None or empty where this is no git checkout."""

    commit: str | None
    uncommitted: str | None
    left_out: tuple[str, ...] = ()  # files that are too large for the patch


def code_state(root: Path) -> tuple[CodeState, bytes]:
    """The state of the clone `root`, and its patch."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return CodeState(None, None), b""
    taken, left_out = _within_bounds(root, _unknown_to_git(root))
    diff = _diff(root, taken)
    if diff is None:  # git cannot read one of them
        diff, left_out = _diff(root, []), (*left_out, *(f"{name} (git refuses it)" for name in taken[:_NAMED]))
    patch = f"uncommitted-{hashlib.sha256(diff).hexdigest()[:8]}.patch" if diff else None
    return CodeState(commit.decode().strip(), patch, left_out), diff or b""


def _unknown_to_git(root: Path) -> list[str]:
    """Files that hosts may get and git does not track, relative to the clone; ignored ones that the bundle has too."""
    untracked = _names(_git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *_SHIPPED))
    training = root / "training"
    code = [f"training/{path}" for path in bundle.sources(training)]
    ignored = _names(_git(root, "ls-files", "-z", "--others", "--", *code)) if code else []
    return sorted({*untracked, *ignored})


def _within_bounds(root: Path, names: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """The files that fit into the patch, and a line on each that is too large for it."""
    taken, left_out, total = list[str](), list[str](), 0
    for name in names:
        path = root / name
        if not path.is_file() and not path.is_symlink():
            continue  # a repository of its own
        size = path.lstat().st_size
        if size > FILE_BYTES or total + size > ALL_BYTES:
            left_out.append(f"{name} ({size:,} bytes)")
        else:
            taken.append(name)
            total += size
    more = len(left_out) - _NAMED
    return taken, (*left_out[:_NAMED], *([f"{more:,} files more"] if more > 0 else []))


def _diff(root: Path, untracked: list[str]) -> bytes | None:
    """The diff from the commit to the files as they are, with those in `untracked`. Git gets a copy of the index."""
    index = _git(root, "rev-parse", "--git-path", "index")
    if index is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        own = Path(name) / "index"
        if (root / index.decode().rstrip("\n")).is_file():
            # With its time: a file that changed in the second in which the index was written is looked into.
            shutil.copy2(root / index.decode().rstrip("\n"), own)
        listed = b"".join(os.fsencode(path) + b"\0" for path in untracked)
        added = ("add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        if untracked and _git(root, "--literal-pathspecs", *added, index=own, given=listed) is None:
            return None
        return _git(root, *_DIFF, "HEAD", index=own)


def _names(listed: bytes | None) -> list[str]:
    return [os.fsdecode(name) for name in (listed or b"").split(b"\0") if name]


def _git(root: Path, *arguments: str, index: Path | None = None, given: bytes | None = None) -> bytes | None:
    """What git says, or None where it refuses: hooks export GIT_DIR and the like, which would name another clone."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    if index:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=environment, input=given or b"", capture_output=True, check=True
        )
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None
    return done.stdout
