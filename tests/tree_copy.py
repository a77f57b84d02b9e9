"""Copies of the working tree for tests: what git knows of it or could add, with this tree's environment."""

from __future__ import annotations

import compileall
import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("infra", "training")


def copy_tree(directory: Path, shared: Iterable[str]) -> None:
    """Into `directory`; the folders `shared` of .slipway are the same in both.

    With the bytecode of what has not changed, which each of some forty copies would else make for itself.
    """
    for package in _PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source, target = ROOT / name, directory / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            if source.suffix == ".py" and (compiled := Path(cache_from_source(source))).is_file():
                kept = Path(cache_from_source(target))
                kept.parent.mkdir(exist_ok=True)
                shutil.copy2(compiled, kept)
    (directory / ".venv").symlink_to(ROOT / ".venv")
    (directory / ".slipway").mkdir()
    for folder in shared:
        (ROOT / ".slipway" / folder).mkdir(parents=True, exist_ok=True)
        (directory / ".slipway" / folder).symlink_to(ROOT / ".slipway" / folder)
