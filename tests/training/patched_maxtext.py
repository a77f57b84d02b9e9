"""A copy of the installed MaxText with our patches, as wheelhouses of hosts have it: to be put on PYTHONPATH."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from tests.training.cluster import ROOT, plain_environment

PATCHES = ROOT / "training" / "patches" / "maxtext-0.2.5"
INSTALLED = Path(str(importlib.metadata.distribution("maxtext").locate_file("maxtext")))


def patch_into(directory: Path) -> None:
    """`directory` is there and gets `maxtext/`. The installed one must be as published."""
    for line in (PATCHES / "files.sha256").read_text().splitlines():
        digest, path = line.split("  ")
        found = hashlib.sha256((INSTALLED.parent / path).read_bytes()).hexdigest()
        assert found == digest, f"{path} is not as published"
    shutil.copytree(INSTALLED, directory / "maxtext")
    for patch in sorted(PATCHES.glob("*.patch")):
        apart = plain_environment() | {"GIT_CEILING_DIRECTORIES": str(directory.parent)}
        subprocess.run(["git", "apply", str(patch)], cwd=directory, env=apart, check=True)
