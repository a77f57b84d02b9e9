"""`pulumi preview` of a shipped foundation against a program that only reads `gcp.compute.Network`, in turn.

Both with the machine's plugin for Google, or with the stand-in where there is none.
"""

from __future__ import annotations

from bench.baseline import STACK, beside, preview, ratios
from bench.record import Figure, figure

REPETITIONS = 7
FOUNDATION = "foundation.us-central1"


def figures() -> list[Figure]:
    network: list[float] = []
    foundation: list[float] = []
    with beside("import pulumi_gcp as gcp\n\ngcp.compute.Network\n") as (reads, clone):
        preview(clone, FOUNDATION)  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            network.append(preview(reads, STACK))
            foundation.append(preview(clone, FOUNDATION))
    return [
        figure("preview_foundation_vs_network_program", ratios(foundation, network), "ratio", "<= 1.3"),
        figure("preview_foundation_seconds", foundation, "s", ""),
    ]
