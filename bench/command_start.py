"""`slipway --help` and `slipway status local` against an interpreter that imports typer and rich, in turn."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from bench.baseline import ratios
from bench.record import Figure, figure
from tests.engine.clone import Clone

REPETITIONS = 9


def figures() -> list[Figure]:
    imports: list[float] = []
    shows_help: list[float] = []
    status: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        clone = Clone.make(Path(name) / "clone")
        # As any interpreter does by itself, unless PYTHONDONTWRITEBYTECODE forbids it.
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        for _ in range(REPETITIONS):
            imports.append(_seconds(clone, "python", "-c", "import typer, rich"))
            shows_help.append(_seconds(clone, "slipway", "--help"))
            status.append(_seconds(clone, "slipway", "status", "local"))
    return [
        figure("slipway_help_vs_imports", ratios(shows_help, imports), "ratio", "<= 1.5"),
        figure("slipway_status_vs_imports", ratios(status, imports), "ratio", "<= 2"),
        figure("slipway_status_seconds", status, "s", ""),
    ]


def _seconds(clone: Clone, tool: str, *arguments: str) -> float:
    start = time.perf_counter()
    done = clone.run(tool, *arguments)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
    return seconds
