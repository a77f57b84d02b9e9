"""A stop that comes in a run's last step: MaxText goes on to record it; in any other it breaks off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jax.experimental import multihost_utils
from orbax.checkpoint import v1 as ocp

from training import last_step

STEPS = 32


def test_a_stop_breaks_a_run_off_after_each_step_but_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from maxtext.common import checkpointing
    from maxtext.utils import exceptions

    module: Any = checkpointing
    monkeypatch.setattr(module, "_handle_post_checkpoint_preemption", module._handle_post_checkpoint_preemption)
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", lambda step: True)  # pyright: ignore[reportUnknownLambdaType]
    last_step.record(STEPS)
    with ocp.training.Checkpointer(str(tmp_path)) as manager:
        with pytest.raises(exceptions.StopTraining):
            module._handle_post_checkpoint_preemption(manager, STEPS - 2, False)
        module._handle_post_checkpoint_preemption(manager, STEPS - 1, False)
