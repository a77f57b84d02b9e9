"""`pulumi preview --stack local` against a Pulumi program that declares nothing, in turn.

Twice: of a stack that is not there yet, and of one that is deployed, where the engine starts the provider a second time
to read what is there.
"""

from __future__ import annotations

from bench.baseline import STACK, beside, preview, ratios, run
from bench.record import Figure, figure

REPETITIONS = 9
DEPLOYED = "local.deployed"


def figures() -> list[Figure]:
    nothing: list[float] = []
    ours: list[float] = []
    deployed: list[float] = []
    with beside("import pulumi\n") as (empty, clone):
        clone.stack(DEPLOYED, steps=1)
        run(clone, "up", "--yes", "--skip-preview", "--stack", DEPLOYED)
        clone.run("slipway", "watch", DEPLOYED)
        preview(clone, "local")  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, STACK))
            ours.append(preview(clone, "local"))
            deployed.append(preview(clone, DEPLOYED))
    return [
        figure("preview_local_vs_empty_program", ratios(ours, nothing), "ratio", "<= 1.3"),
        figure("preview_deployed_vs_empty_program", ratios(deployed, nothing), "ratio", ""),
        figure("preview_local_seconds", ours, "s", ""),
    ]
