"""`pulumi preview` of clusters of TPU7x and of GPUs against one of v5e and a program that declares nothing, in turn.

And what Kubernetes is told of 256 hosts, from a plan that is decided.
"""

from __future__ import annotations

import time

from bench.baseline import STACK, beside, preview, ratios
from bench.record import Figure, figure
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import decide
from infra.stack_file.settings import any_from_file
from infra.targets.gke_tpu.settings import GkeTpuSettings

REPETITIONS = 7
IRONWOOD, GPUS, FIRST = "gke-tpu7x-64", "gke-a3-mega-32", "gke-v5e-16"
HOSTS, SLICES = 256, 64  # of four hosts each


def figures() -> list[Figure]:
    nothing: list[float] = []
    ironwood: list[float] = []
    gpus: list[float] = []
    first: list[float] = []
    with beside("import pulumi\n") as (empty, clone):
        for stack in (IRONWOOD, GPUS, FIRST):
            preview(clone, stack)  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, STACK))
            ironwood.append(preview(clone, IRONWOOD))
            gpus.append(preview(clone, GPUS))
            first.append(preview(clone, FIRST))
    return [
        figure("preview_tpu7x_64_vs_v5e_16", ratios(ironwood, first), "ratio", "<= 1.1"),
        figure("preview_tpu7x_64_vs_empty_program", ratios(ironwood, nothing), "ratio", "<= 1.8"),
        figure("preview_a3_mega_32_vs_v5e_16", ratios(gpus, first), "ratio", "<= 1.3"),
        figure("job_set_of_256_hosts_rendered", [_rendered() for _ in range(REPETITIONS)], "s", "<= 0.5"),
    ]


def _rendered() -> float:
    settings = any_from_file("gke-v6e-16x4")
    assert isinstance(settings, GkeTpuSettings)
    software = decide(settings).software
    many = settings.model_copy(update={"slices": SLICES})
    assert many.group.hosts == HOSTS
    start = time.perf_counter()
    run_manifests(many, software)
    return time.perf_counter() - start
