"""A run that is told to stop in its last step saves, and then ends as any other: with that step's losses recorded.

MaxText breaks off between the save of a step and its metrics. After any other step the run goes on from there and one
line of its record is missing; after the last one nothing follows, and the final losses would be missing for good. Owns
how MaxText is brought to go on. Refuses to own what the ending is called (training/endings.py).
"""

from __future__ import annotations

from typing import Any


def record(steps: int) -> None:
    """From now on MaxText breaks off after no step of `steps` but the ones before the last. Call before it trains."""
    from maxtext.common import checkpointing  # here, for it takes seconds and few starts need it

    module: Any = checkpointing
    break_off = module._handle_post_checkpoint_preemption

    def after_save(manager: Any, step: int, forced: bool) -> None:
        if step < steps - 1:
            break_off(manager, step, forced)
        else:
            module.wait_until_finished(manager)

    module._handle_post_checkpoint_preemption = after_save
