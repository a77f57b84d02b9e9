"""`pulumi preview` of tpu-vm stacks against a program that declares nothing, and of 32 slices against one, in turn.

The table of all stacks beside it: `slipway preview --all`, per stack.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.preview import preview, ratios, run
from bench.record import Figure, figure
from infra.settings import stack_names
from tests.engine.clone import ROOT, Clone

REPETITIONS = 9
ONE, MANY = "v6e-8", "v6e-8x32"


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "empty"
        empty.mkdir()
        (empty / "Pulumi.yaml").write_text("name: empty\nruntime: python\n")
        (empty / "__main__.py").write_text("import pulumi\n")
        backend = {
            "PATH": os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{empty}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        run(empty, os.environ | backend, "stack", "init", "empty")
        clone = Clone.make(Path(name) / "clone")
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        for stack in (ONE, MANY):
            preview(clone.directory, clone.environment, stack)  # the first one makes the stack's state
        nothing: list[float] = []
        one: list[float] = []
        many: list[float] = []
        table: list[float] = []
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, os.environ | backend, "empty"))
            one.append(preview(clone.directory, clone.environment, ONE))
            many.append(preview(clone.directory, clone.environment, MANY))
            start = time.perf_counter()
            shown = clone.run("slipway", "preview", "--all")
            assert shown.returncode == 0, shown.stderr
            table.append((time.perf_counter() - start) / len(stack_names()))
    return [
        figure("preview_tpu_vm_vs_empty_program", ratios(one, nothing), "ratio", "<= 1.5"),
        figure("preview_32_slices_vs_1", ratios(many, one), "ratio", "<= 1.05"),
        figure("preview_all_seconds_per_stack", table, "s", "<= 2"),
    ]
