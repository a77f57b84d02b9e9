"""A warm `make up` to its first training step, and the memory of all hosts together.

In a clone of its own, so that nobody's stack is touched; environment, prepared data and compiled programs are there.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from bench.record import Figure, figure
from infra.targets.local import processes
from tests.engine.clone import Clone

REPETITIONS = 5
_STEPS = 60
_MEMORY_EVERY_S = 0.5


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        clone = Clone.make(Path(name) / "clone")
        stack = clone.directory / "stacks" / "Pulumi.local.yaml"
        text, changed = re.subn(r"slipway:steps: \d+", f"slipway:steps: {_STEPS}", stack.read_text())
        assert changed == 1, f"{stack} does not say how many steps"
        stack.write_text(text)
        _once(clone)  # prepares data and compiles
        seconds, peaks = zip(*[_once(clone) for _ in range(REPETITIONS)], strict=True)
    return [
        figure("warm_up_to_first_step", seconds, "s", "<= 10"),
        figure("hosts_peak_memory", peaks, "GiB", "<= 4"),
    ]


def _once(clone: Clone) -> tuple[float, float]:
    """Seconds from the command to the first step, and the peak of the hosts' proportional memory in GiB."""
    start = time.time()
    command = ["make", "up", "STACK=local"]
    up = subprocess.Popen(
        command, cwd=clone.directory, env=clone.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0
    while up.poll() is None:
        peak = max(peak, _memory(clone.work("local")))
        time.sleep(_MEMORY_EVERY_S)
    if up.returncode:
        raise RuntimeError(f"`make up` failed in {clone.directory}; run it by hand to see why")
    status = json.loads((clone.work("local") / "hosts" / "0" / "status.json").read_text())
    subprocess.run(["make", "destroy"], cwd=clone.directory, env=clone.environment, capture_output=True, check=True)
    clone.run("slipway", "purge", "local", "--yes")
    return status["first_step_at"] - start, peak / 2**30


def _memory(root: Path) -> int:
    """Bytes of all host processes; pages that they share count once (PSS)."""
    total = 0
    for process in processes.labelled(root):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue  # ended meanwhile
    return total
