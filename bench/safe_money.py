"""The fault matrix of TPU requests, whole, and what an upgrade from 0.1.0 plans.

Each case kills real processes against the emulated TPU API, and the states are previewed through the real engine. Not
run on real hardware.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.record import Figure, reaches
from infra.paths import ROOT
from infra.preview.planned_changes import changes
from tests.engine import states
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import emulated
from tests.unit.test_fault_matrix import FEWEST


def figures() -> list[Figure]:
    return [*_matrix(), *_upgrades()]


def _matrix() -> list[Figure]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "tests.unit.fault_matrix", *FEWEST]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds = time.perf_counter() - start
    result = json.loads(done.stdout)
    cases, failures = int(result["cases"]), len(result["failures"])
    return [
        Figure("fault_matrix_cases", cases, "", ">= 2500", reaches(cases, ">= 2500")),
        Figure("fault_matrix_orphans_doubles_and_taken", failures, "", "<= 0", reaches(failures, "<= 0")),
        Figure("fault_matrix", seconds, "s", "<= 300", reaches(seconds, "<= 300")),
    ]


def _upgrades() -> list[Figure]:
    """Of what a release has left: how many changes a preview plans that are no create with a reason."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        clone = Clone.make(Path(name) / "clone")
        os.environ["HOME"] = str(Path(name) / "home")  # no login of this machine's
        for release in sorted(folder.name for folder in states.DIRECTORY.iterdir()):
            for target in states.STACKS:
                with emulated(Path(name) / target, [states.LIKE]) as api:
                    touched = _touched(clone, target, release, api)
                label = f"upgrade_from_{release}_{target}"
                found.append(Figure(label, touched, "resources", "<= 0", reaches(touched, "<= 0")))
    return found


def _touched(clone: Clone, target: str, release: str, api: Any) -> int:
    stack = states.restore(clone, target, release, api if target == "tpu-vm" else None)
    preview = clone.pulumi("preview", stack, "--json")
    if preview.returncode:
        raise SystemExit(said(preview))
    explained = states.explained(target, release)
    return sum((change.action, change.resource) not in explained for change in changes(preview.stdout))
