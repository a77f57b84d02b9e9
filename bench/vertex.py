"""Custom jobs of Vertex AI: the fault matrix, whole; a create where the service takes no time; `pulumi preview`.

Each case kills real processes against the emulated Vertex AI. Not run against Google's own service.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

from bench.baseline import STACK, beside, preview, ratios
from bench.record import Figure, figure, reaches
from infra.emulated import VERTEX
from infra.emulators.vertex_jobs import JobCloud, VertexApi
from infra.paths import ROOT
from infra.providers.resource import Context
from infra.targets.vertex.provider.vertex_job_resource import VertexJobResource
from tests.engine.vertex_cloud import AT_ONCE
from tests.unit.vertex_stack import wanted

REPETITIONS = 9
SHIPPED = "vertex-a3-mega-2"


def figures() -> list[Figure]:
    return [*_matrix(), _create(), _preview()]


def _matrix() -> list[Figure]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "tests.unit.vertex_matrix", "all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds = time.perf_counter() - start
    result = json.loads(done.stdout)
    cases, failures = int(result["cases"]), len(result["failures"])
    return [
        Figure("vertex_matrix_cases", cases, "", ">= 500", reaches(cases, ">= 500")),
        Figure("vertex_matrix_orphans_and_doubles", failures, "", "<= 0", reaches(failures, "<= 0")),
        Figure("vertex_matrix", seconds, "s", "", True),
    ]


def _create() -> Figure:
    """Until it is seen to run."""
    took: list[float] = []
    for _ in range(REPETITIONS):
        with VertexApi(JobCloud(AT_ONCE), speed=1) as api:
            os.environ[VERTEX] = api.url
            context = Context("urn", time.monotonic() + 60, threading.Event(), lambda _: None, lambda _: None)
            start = time.perf_counter()
            _, outputs = VertexJobResource().create(context, wanted(identity="bench"))
            took.append(time.perf_counter() - start)
            assert outputs["state"] == "RUNNING"
    del os.environ[VERTEX]
    return figure("vertex_create_to_running", took, "s", "<= 2")


def _preview() -> Figure:
    nothing: list[float] = []
    ours: list[float] = []
    with beside("import pulumi\n") as (empty, clone):
        preview(clone, SHIPPED)  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, STACK))
            ours.append(preview(clone, SHIPPED))
    return figure("preview_vertex_vs_empty_program", ratios(ours, nothing), "ratio", "<= 1.4")
