"""`pulumi preview --stack local` against a Pulumi program that declares nothing, in turn.

Twice: of a stack that is not there yet, and of one that is deployed, where the engine starts the provider a second time
to read what is there.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.record import Figure, figure
from tests.engine.clone import Clone

ROOT = Path(__file__).resolve().parent.parent
REPETITIONS = 9


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "empty"
        empty.mkdir()
        (empty / "Pulumi.yaml").write_text("name: empty\nruntime: python\n")
        (empty / "__main__.py").write_text("import pulumi\n")
        path = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
        backend = {"PULUMI_BACKEND_URL": f"file://{empty}", "PULUMI_CONFIG_PASSPHRASE": "", "PATH": path}
        # As our wrapper sets it: the engine finds pulumi-gcp installed and would look for its plugin on the network.
        backend["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
        run(empty, os.environ | backend, "stack", "init", "empty")
        clone = Clone.make(Path(name) / "clone")
        # As any interpreter does by itself, unless PYTHONDONTWRITEBYTECODE forbids it.
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        clone.stack("local.deployed", steps=1)
        run(clone.directory, clone.environment, "up", "--yes", "--skip-preview", "--stack", "local.deployed")
        clone.run("slipway", "watch", "local.deployed")
        nothing, ours, deployed = [], [], []
        preview(clone.directory, clone.environment, "local")
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, os.environ | backend, "empty"))
            ours.append(preview(clone.directory, clone.environment, "local"))
            deployed.append(preview(clone.directory, clone.environment, "local.deployed"))
    return [
        figure("preview_local_vs_empty_program", ratios(ours, nothing), "ratio", "<= 1.35"),
        figure("preview_deployed_vs_empty_program", ratios(deployed, nothing), "ratio", ""),
        figure("preview_local_seconds", ours, "s", ""),
    ]


def ratios(ours: list[float], nothing: list[float]) -> list[float]:
    return [a / b for a, b in zip(ours, nothing, strict=True)]


def preview(directory: Path, environment: dict[str, str], stack: str) -> float:
    start = time.perf_counter()
    run(directory, environment, "preview", "--stack", stack)
    return time.perf_counter() - start


def run(directory: Path, environment: dict[str, str], *arguments: str) -> None:
    """The wrapper each time: what it costs is in all of them."""
    command = [str(ROOT / ".venv" / "bin" / "pulumi"), *arguments, "--non-interactive"]
    subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, check=True, capture_output=True)
