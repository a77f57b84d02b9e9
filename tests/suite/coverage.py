"""Line and branch coverage of infra/ and training/ by room, of everything that the suite starts: `make coverage`.

Whichever Python of either environment is started meanwhile is measured: commands, providers, programs, launched hosts,
forks. Not measured are hosts that bootstrap.sh has installed, whose environment has no coverage.py, and what ends by
kill -9. `coverage.json` beside this file is what the suite reached at 29e51af, before tests were moved and merged.

    python -m tests.suite.coverage measure          the whole suite; 1 if a room is below coverage.json
    python -m tests.suite.coverage report FOLDER    rooms as JSON, of what a folder has measured
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
from coverage.exceptions import DataError

from tests.suite.__main__ import ROOT

BASELINE = Path(__file__).with_name("coverage.json")
VARIABLE = "COVERAGE_PROCESS_START"
_ENVIRONMENTS = (".venv", ".slipway/env/dev")
# Clones of tests lie anywhere; the last folder of either name is the tree's.
_OURS = re.compile(r"^(?!.*/(?:site-packages|tests|bench)/).*/((?:infra|training)/.*\.py)$")
_SETTINGS = """\
[run]
branch = true
parallel = true
data_file = {folder}/data/.coverage
include =
    */infra/*
    */training/*
omit =
    */site-packages/*
    */tests/*
    */bench/*
disable_warnings = no-data-collected,module-not-measured,already-imported,couldnt-parse
patch =
    _exit
    fork
"""
# A .pth file is one line that site runs at every start of Python.
_START = (
    "import os, sys; exec(\"if os.environ.get('{variable}'):\\n sys.path.append('{library}')\\n"
    ' import coverage\\n coverage.process_startup()")\n'
)


@dataclass(frozen=True)
class Room:
    """What is covered of how many lines, and of how many branches."""

    lines: tuple[int, int]
    branches: tuple[int, int]

    @property
    def line_share(self) -> float:
        return self.lines[0] / self.lines[1] if self.lines[1] else 1.0

    @property
    def branch_share(self) -> float:
        return self.branches[0] / self.branches[1] if self.branches[1] else 1.0


def room_of(file: str) -> str:
    """The folder, three deep at most: a target's provider belongs to the target."""
    return "/".join(Path(file).parts[:-1][:3])


def prepare(folder: Path, root: Path = ROOT) -> list[Path]:
    """Make both environments measure whatever is started with VARIABLE, which the caller sets to `folder`/settings.

    Returns the files that do it, for the caller to remove.
    """
    library = folder / "library"
    library.mkdir(parents=True)
    (folder / "data").mkdir()
    (library / "coverage").symlink_to(Path(coverage.__file__).parent)  # the hosts' environment has none of its own
    (folder / "settings").write_text(_SETTINGS.format(folder=folder))
    starts: list[Path] = []
    for environment in _ENVIRONMENTS:
        (site,) = (root / environment).glob("lib/python3.*/site-packages")
        start = site / "zz-slipway-coverage.pth"
        start.write_text(_START.format(variable=VARIABLE, library=library))
        starts.append(start)
    return starts


def rooms(folder: Path, root: Path = ROOT) -> dict[str, Room]:
    """By room, of all data in `folder`/data."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "infra/*.py", "training/*.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [name for name in listed.stdout.splitlines() if (root / name).is_file()]

    def place(path: str) -> str:
        found = _OURS.match(path)
        return str(root / found[1]) if found else path

    with tempfile.TemporaryDirectory() as scratch:
        together = coverage.CoverageData(basename=str(Path(scratch, "together")))
        for file in sorted((folder / "data").glob(".coverage.*")):
            part = coverage.CoverageData(basename=str(file))
            try:
                part.read()
            except DataError:
                continue  # killed while it wrote what it had measured
            together.update(part, map_path=place)
        for name in ours:
            together.touch_file(str(root / name))
        together.write()
        report = coverage.Coverage(data_file=str(Path(scratch, "together")), branch=True, config_file=False)
        report.load()
        output = Path(scratch, "report.json")
        report.json_report([str(root / name) for name in ours], outfile=str(output))
        files: dict[str, dict[str, Any]] = json.loads(output.read_text())["files"]
    totals: dict[str, list[int]] = {}
    for name, file in files.items():
        summary = file["summary"]
        total = totals.setdefault(room_of(str(Path(name).resolve().relative_to(root.resolve()))), [0, 0, 0, 0])
        for index, key in enumerate(("covered_lines", "num_statements", "covered_branches", "num_branches")):
            total[index] += summary[key]
    return {name: Room((a, b), (c, d)) for name, (a, b, c, d) in sorted(totals.items())}


def lower(now: Mapping[str, Room], before: Mapping[str, Room]) -> list[str]:
    """Rooms that are less covered than before, in sentences."""
    found: list[str] = []
    for name, room in before.items():
        if name not in now:
            continue  # it was renamed or is gone
        for what, share, wanted in (
            ("lines", now[name].line_share, room.line_share),
            ("branches", now[name].branch_share, room.branch_share),
        ):
            if share < wanted:
                found.append(f"{name}: {share:.1%} of {what}, {wanted:.1%} before")
    return found


def read(text: str) -> dict[str, Room]:
    return {name: Room(tuple(room["lines"]), tuple(room["branches"])) for name, room in json.loads(text).items()}


def written(by_room: Mapping[str, Room]) -> str:
    entries = (
        f' "{name}": {{"lines": {list(room.lines)}, "branches": {list(room.branches)}}}'
        for name, room in by_room.items()
    )
    return "{\n" + ",\n".join(entries) + "\n}\n"


def measure() -> tuple[int, dict[str, Room]]:
    """The suite's exit code, and what it covers."""
    subprocess.run(["tools/host-env.sh"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)  # a fresh clone has none
    with tempfile.TemporaryDirectory(prefix="slipway-coverage-") as scratch:
        folder = Path(scratch, "measured")
        starts = prepare(folder)
        try:
            environment = os.environ | {VARIABLE: str(folder / "settings")}
            command = [sys.executable, "-m", "tests.suite"]
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        finally:
            for start in starts:
                start.unlink()
        kept = ROOT / ".slipway" / "suite" / "coverage"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder / "data", kept / "data")
        return code, rooms(folder)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["report"]:
        print(written(rooms(Path(arguments[1]))), end="")
        return 0
    code, now = measure()
    before = read(BASELINE.read_text())
    for name, room in now.items():
        was = before.get(name)
        shares = f"lines {room.line_share:6.1%}  branches {room.branch_share:6.1%}"
        print(f"{name:40} {shares}" + (f"  before {was.line_share:6.1%} {was.branch_share:6.1%}" if was else ""))
    for sentence in (fallen := lower(now, before)):
        print(f"lower: {sentence}")
    return 1 if code or fallen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
