"""From where a replay of a step goes on, what it changes of the run spec, and the line that compares."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import TINY
from training.replay import ReplayError, ReplayStart, comparison, replayed, start_of
from training.run_spec import RunSpec


def run(directory: Path, losses: dict[int, float], *checkpoints: int) -> RunSpec:
    """A run with that record and those checkpoints."""
    metrics = directory / "run" / "metrics"
    metrics.mkdir(parents=True)
    (metrics / "host-0.jsonl").write_text("".join(json.dumps(line(*each)) + "\n" for each in losses.items()))
    for label in checkpoints:
        (directory / "run" / "checkpoints" / str(label)).mkdir(parents=True)
    return RunSpec("test", "run", "cpu", 1, 2, 2, 100, str(directory), None, TINY | {"eval_interval": 4})


def line(step: int, loss: float, param_norm: float = 30.0) -> dict[str, Any]:
    return {"step": float(step), "learning/loss": loss, "learning/param_norm": param_norm}


GOOD = dict.fromkeys(range(10), 5.0)


@pytest.mark.parametrize(
    ("step", "first"), [(9, 9), (8, 5), (5, 5), (4, 0)], ids=["the step before", "between", "at the first", "none"]
)
def test_it_goes_on_from_the_newest_checkpoint_before_the_step(tmp_path: Path, step: int, first: int) -> None:
    expected = tmp_path / "run" / "checkpoints" / str(first - 1) if first else None
    assert start_of(run(tmp_path, GOOD, 4, 8, 9), step) == ReplayStart(first, expected)


def test_and_from_none_that_a_bad_step_has_spoiled(tmp_path: Path) -> None:
    spec = run(tmp_path, GOOD | {8: math.nan, 9: math.nan}, 4, 8, 9)
    assert start_of(spec, 9).first == 5


@pytest.mark.parametrize("step", [10, 100])
def test_a_step_that_was_not_done_is_refused(tmp_path: Path, step: int) -> None:
    with pytest.raises(ReplayError, match=f"step {step} is not recorded; the run run has steps 0 to 9"):
        start_of(run(tmp_path, GOOD), step)


def test_the_schedule_stays_that_of_the_whole_run(tmp_path: Path) -> None:
    spec = run(tmp_path, GOOD)
    again = replayed(spec, tmp_path / "scratch", 7)
    assert (again.steps, again.output_directory) == (8, str(tmp_path / "scratch"))
    assert again.maxtext["learning_rate_schedule_steps"] == 100
    assert again.maxtext["eval_interval"] == -1


def test_steps_are_compared_to_the_last_bit_with_what_was_recorded_last() -> None:
    recorded = [line(6, 9.0), line(6, 5.0), line(7, math.nan)]
    assert comparison(recorded, [line(6, math.nextafter(5.0, 6.0)), line(7, math.nan), line(8, 1.0)]) == [
        "step 6: loss 5.000000000000001 (recorded: 5.0), parameter norm 30.0; differs",
        "step 7: loss nan, parameter norm 30.0; bit-equal",
        "step 8: loss 1.0, parameter norm 30.0; not recorded",
    ]
