"""infra/pip.py answers as pip does what the engine's Python host asks, and is pip for everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from infra import pip
from infra.paths import ROOT

ASKED = ["list", "-v", "--format", "json"]


def asked(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def packages(answer: str) -> set[tuple[str, str, str]]:
    return {(package["name"], package["version"], package["location"]) for package in json.loads(answer)}


def test_the_host_is_told_what_pip_would_tell_it(tmp_path: Path) -> None:
    ours, pips = (packages(asked(folder, *ASKED)) for folder in (ROOT / "infra", tmp_path))
    assert ours == pips
    assert "pulumi_gcp" in {name.replace("-", "_") for name, _, _ in ours}


def test_a_package_that_does_not_say_its_version_is_named_all_the_same(tmp_path: Path) -> None:
    """What an interrupted installation leaves; the host of a broken environment would end with a trace otherwise."""
    metadata = tmp_path / "broken-1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Name: broken\n")
    assert list(pip.installed([str(tmp_path)])) == [{"location": str(tmp_path), "name": "broken"}]


def test_anything_else_is_pips_to_answer(tmp_path: Path) -> None:
    assert asked(ROOT / "infra", "--version") == asked(tmp_path, "--version")
