"""`pulumi preview` of a cluster of 256 GPUs with their networks against one of 16 chips of v5e, in turn."""

from __future__ import annotations

from bench.baseline import beside, preview, ratios
from bench.record import Figure, figure

REPETITIONS = 7
GPUS, FIRST = "gke-a3-mega-32", "gke-v5e-16"


def figures() -> list[Figure]:
    gpus: list[float] = []
    first: list[float] = []
    with beside("import pulumi\n") as (_, clone):
        for stack in (GPUS, FIRST):
            preview(clone, stack)  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            gpus.append(preview(clone, GPUS))
            first.append(preview(clone, FIRST))
    return [figure("preview_a3_mega_32_vs_v5e_16", ratios(gpus, first), "ratio", "<= 1.3")]
