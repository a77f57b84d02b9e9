"""`pulumi preview` of a shipped foundation against a program that only reads `gcp.compute.Network`, in turn.

Both with the machine's plugin for Google, or with the stand-in where there is none.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.preview import preview, ratios, run
from bench.record import Figure, figure
from tests.engine.clone import ROOT, Clone

REPETITIONS = 7
STACK = "foundation.us-central1"


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        reads = Path(name) / "reads"
        reads.mkdir()
        (reads / "Pulumi.yaml").write_text("name: reads\nruntime: python\n")
        (reads / "__main__.py").write_text("import pulumi_gcp as gcp\n\ngcp.compute.Network\n")
        backend = {
            "PATH": os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{reads}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        run(reads, os.environ | backend, "stack", "init", "reads")
        clone = Clone.make(Path(name) / "clone")
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        preview(clone.directory, clone.environment, STACK)
        network: list[float] = []
        foundation: list[float] = []
        for _ in range(REPETITIONS):
            network.append(preview(reads, os.environ | backend, "reads"))
            foundation.append(preview(clone.directory, clone.environment, STACK))
    return [
        figure("preview_foundation_vs_network_program", ratios(foundation, network), "ratio", "<= 1.3"),
        figure("preview_foundation_seconds", foundation, "s", ""),
    ]
