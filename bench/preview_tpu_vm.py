"""`pulumi preview` of a TPU slice against a program that declares nothing, and of 32 slices against one, in turn.

The table of all stacks beside it: `slipway preview --all`, per stack.
"""

from __future__ import annotations

import time

from bench.baseline import STACK, beside, preview, ratios
from bench.record import Figure, figure
from infra.stack_file.settings import stack_names

REPETITIONS = 9
SLICE, ONE, MANY = "v6e-32", "v6e-8", "v6e-8x32"


def figures() -> list[Figure]:
    nothing: list[float] = []
    of_slice: list[float] = []
    one: list[float] = []
    many: list[float] = []
    table: list[float] = []
    with beside("import pulumi\n") as (empty, clone):
        for stack in (SLICE, ONE, MANY):
            preview(clone, stack)  # the first one makes the stack's state
        for _ in range(REPETITIONS):
            nothing.append(preview(empty, STACK))
            of_slice.append(preview(clone, SLICE))
            one.append(preview(clone, ONE))
            many.append(preview(clone, MANY))
            start = time.perf_counter()
            shown = clone.run("slipway", "preview", "--all")
            assert shown.returncode == 0, shown.stderr
            table.append((time.perf_counter() - start) / len(stack_names()))
    return [
        figure("preview_tpu_vm_vs_empty_program", ratios(of_slice, nothing), "ratio", "<= 1.35"),
        figure("preview_32_slices_vs_1", ratios(many, one), "ratio", "<= 1.05"),
        figure("preview_all_seconds_per_stack", table, "s", "<= 2"),
    ]
