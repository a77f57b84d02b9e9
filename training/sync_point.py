"""The step after which a stopped run saves, which JAX finds by what each host asks: asked in the order of steps.

JAX notes the step that it was last asked about, and lets all hosts save at the one after the furthest. Orbax asks too,
in a thread of its own, about the step whose save has just ended, which is some steps back. A stop that came then was to
be obeyed at a step that had gone by: the run trained on, its notice ran out, and what was not saved was lost.
Owns that only who trains asks JAX. Refuses to own what follows of the answer (MaxText, training/last_step.py).
"""

from __future__ import annotations

import threading
from typing import Any

from jax.experimental import multihost_utils


def ask_in_order() -> None:
    """From now on JAX hears of the calling thread's steps alone; others get what that thread was told. Call once."""
    module: Any = multihost_utils
    ask, trains = module.reached_preemption_sync_point, threading.get_ident()
    reached: set[int] = set()

    def answer(step: int) -> bool:
        if threading.get_ident() == trains and ask(step):
            reached.add(step)
        return step in reached

    module.reached_preemption_sync_point = answer
