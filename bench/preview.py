"""`pulumi preview --stack local` against a Pulumi program that declares nothing, in turn."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.record import Figure, figure

ROOT = Path(__file__).resolve().parent.parent
REPETITIONS = 9


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name)
        (empty / "Pulumi.yaml").write_text("name: empty\nruntime: python\n")
        (empty / "__main__.py").write_text("import pulumi\n")
        backend = {"PULUMI_BACKEND_URL": f"file://{empty}", "PULUMI_CONFIG_PASSPHRASE": ""}
        _run(empty, backend, "stack", "init", "empty")
        ours, nothing = [], []
        _preview(ROOT, {}, "local")
        for _ in range(REPETITIONS):
            nothing.append(_preview(empty, backend, "empty"))
            ours.append(_preview(ROOT, {}, "local"))
    ratios = [a / b for a, b in zip(ours, nothing, strict=True)]
    return [
        figure("preview_local_vs_empty_program", ratios, "ratio", "<= 1.35"),
        figure("preview_local_seconds", ours, "s", ""),
    ]


def _preview(directory: Path, environment: dict[str, str], stack: str) -> float:
    start = time.perf_counter()
    _run(directory, environment, "preview", "--stack", stack)
    return time.perf_counter() - start


def _run(directory: Path, environment: dict[str, str], *arguments: str) -> None:
    """The wrapper both times: what it costs is in both."""
    command = [str(ROOT / ".venv" / "bin" / "pulumi"), *arguments, "--non-interactive"]
    path = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    subprocess.run(
        command, cwd=directory, env=os.environ | environment | {"PATH": path}, check=True, capture_output=True
    )
