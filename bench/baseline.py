"""What previews are measured against: a Pulumi program of a line or two, with a clone of this project beside it.

Both run through the wrapper, so what that costs is in both.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infra.paths import PULUMI, TOOLS
from tests.engine.clone import Clone

STACK = "baseline"


class Project(Protocol):
    @property
    def directory(self) -> Path: ...

    @property
    def environment(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Baseline:
    """The program's project; its one stack is STACK."""

    directory: Path
    environment: dict[str, str]


@contextlib.contextmanager
def beside(program: str) -> Generator[tuple[Baseline, Clone]]:
    """program: the text of its __main__.py."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / STACK
        directory.mkdir()
        (directory / "Pulumi.yaml").write_text(f"name: {STACK}\nruntime: python\n")
        (directory / "__main__.py").write_text(program)
        environment = os.environ | {
            "PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{directory}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            # As our wrapper sets it, else the engine looks for the plugin of the installed pulumi-gcp on the network.
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        baseline = Baseline(directory, environment)
        run(baseline, "stack", "init", STACK)
        clone = Clone.make(Path(name) / "clone")
        # As any interpreter does by itself, unless PYTHONDONTWRITEBYTECODE forbids it.
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        yield baseline, clone


def preview(project: Project, stack: str) -> float:
    """Seconds."""
    start = time.perf_counter()
    run(project, "preview", "--stack", stack)
    return time.perf_counter() - start


def run(project: Project, *arguments: str) -> None:
    command = [str(PULUMI), *arguments, "--non-interactive"]
    subprocess.run(
        command,
        cwd=project.directory,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        check=True,
        capture_output=True,
    )


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [a / b for a, b in zip(ours, theirs, strict=True)]
