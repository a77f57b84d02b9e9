"""Which step of a record is bad, and which checkpoints it spoils; the record is MaxText's lines as hosts keep them."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.checkpoints import completed_steps, set_aside
from training.loss_judge import FINITE, BadStep, Bounds, LossJudge, bad_step_of, bounds, first_bad

NAN, INF = math.nan, math.inf


def line(step: int, loss: float = 5.0, grad_norm: float = 1.0, param_norm: float = 30.0) -> dict[str, Any]:
    norms = {"learning/grad_norm": grad_norm, "learning/param_norm": param_norm}
    return {"step": float(step), "learning/loss": loss} | norms


def lines(first: int, end: int) -> list[dict[str, Any]]:
    return [line(step) for step in range(first, end)]


EVALUATION = {"step": 7.0, "eval/total_loss": NAN, "eval/avg_loss": NAN}


@pytest.mark.parametrize(
    ("bad", "quantity", "spoiled"),
    [
        (line(7, loss=NAN), "loss", 6),
        (line(7, loss=INF), "loss", 6),
        (line(7, grad_norm=NAN), "gradient norm", 7),
        (line(7, param_norm=INF), "parameter norm", 7),
    ],
)
def test_the_first_step_with_a_number_that_is_none_spoils_its_checkpoint_and_a_loss_the_one_that_gave_it(
    bad: dict[str, Any], quantity: str, spoiled: int
) -> None:
    found = first_bad([*lines(0, 7), EVALUATION, bad, line(8, NAN, NAN, NAN)], FINITE)
    assert found is not None
    assert (found.step, found.quantity, found.usual, found.spoiled) == (7, quantity, 5.0, spoiled)


def test_it_is_said_with_its_value_and_what_was_usual() -> None:
    assert str(first_bad([*lines(0, 7), line(7, loss=NAN)], FINITE)) == (
        "the loss of step 7 is nan (the loss was usually 5)"
    )
    assert str(first_bad([line(0, param_norm=INF)], FINITE)) == "the parameter norm of step 0 is inf"


def test_numbers_that_a_run_has_gone_back_behind_do_not_count() -> None:
    """It resumed before them, with other settings, or with the same after a fault of the machine."""
    bad = [*lines(0, 7), line(7, loss=NAN), line(8, loss=NAN)]
    assert first_bad([*bad, line(7)], FINITE) is None
    assert first_bad([*bad, *lines(6, 9)], FINITE) is None
    assert first_bad([*bad, line(6)], FINITE) is None, "killed before it came to that step: step 7 is to be done yet"


@pytest.mark.parametrize(
    ("record", "spoiled"),
    [
        ([line(8, param_norm=INF)], 7),
        ([*lines(0, 4), line(8, param_norm=INF)], 7),
        ([*lines(0, 8), line(8, param_norm=INF)], 8),
        ([line(0, loss=NAN)], 0),
    ],
    ids=["a record that is gone", "one with a gap", "one without", "the first step"],
)
def test_a_checkpoint_that_gives_no_numbers_at_once_is_spoiled_unless_its_own_step_is_known_to_be_good(
    record: list[dict[str, Any]], spoiled: int
) -> None:
    found = first_bad(record, FINITE)
    assert found is not None and found.spoiled == spoiled


def test_a_spike_is_a_multiple_of_the_median_of_the_losses_before() -> None:
    record = [*lines(0, 20), line(20, loss=14.9), line(21, loss=15.1)]
    assert first_bad(record, Bounds(spike=3.0)) == BadStep(21, "loss", 15.1, 5.0, 20)
    assert first_bad(record, Bounds(spike=None)) is None


def test_what_is_usual_follows_the_run_and_a_beginning_has_none() -> None:
    """After 64 steps the losses of the beginning do not count; of few nothing is usual yet."""
    assert first_bad([line(0, loss=1.0), line(1, loss=9.0)], Bounds(spike=3.0)) is None
    falling = [line(step, loss=100.0 if step < 64 else 5.0) for step in range(128)]
    assert first_bad([*falling, line(128, loss=16.0)], Bounds(spike=3.0)) == BadStep(128, "loss", 16.0, 5.0, 127)


def test_a_bound_that_is_set_later_takes_nothing_back() -> None:
    record = [*lines(0, 20), line(20, loss=16.0), *lines(21, 84)]
    found = first_bad(record, Bounds(spike=3.0))
    assert found is not None and found.step == 20
    assert first_bad([*record, line(84)], Bounds(spike=3.0)) is None
    assert first_bad([*lines(0, 20), *(line(step, loss=NAN) for step in range(20, 200))], FINITE) is not None


def test_where_maxtext_was_told_to_go_on_no_number_ends_it_and_a_step_that_it_skips_has_no_gradient() -> None:
    record = [*lines(0, 7), line(7, grad_norm=NAN)]
    assert first_bad(record, bounds({}, None)) is not None
    assert first_bad(record, bounds({"abort_on_nan_loss": False}, None)) is None
    assert first_bad(record, bounds({"skip_step_on_spikes": True}, None)) is None
    assert first_bad([*record, line(8, loss=NAN)], bounds({"skip_step_on_spikes": True}, None)) is not None


def test_a_start_is_not_ended_by_what_the_starts_before_it_have_seen() -> None:
    judge = LossJudge(FINITE)
    judge.lines([*lines(0, 7), line(7, loss=NAN)])
    judge.begin_at(7)
    judge.lines([line(7)])
    assert judge.bad is None
    judge.lines([line(8, loss=NAN)])
    assert judge.bad is not None and (judge.bad.step, judge.bad.usual) == (8, 5.0)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 90), st.integers(0, 40), st.sampled_from([5.0, 5.0, 14.0, 16.0, NAN]))))
def test_the_end_of_a_record_tells_what_all_of_it_does(parts: list[tuple[int, int, float]]) -> None:
    """Starts of some steps, each of which ends by a loss, and the next of which goes back by some."""
    record, step = list[dict[str, Any]](), 0
    for count, back, loss in parts:
        record += [*lines(step, step + count), line(step + count, loss=loss), EVALUATION]
        step = max(0, step + count + 1 - back)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "host-0.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in record) + '{"step": 1.0, "learn')
        for held_to in (FINITE, Bounds(spike=3.0)):
            said = repr(bad_step_of(path, held_to))  # nan is not equal to itself
            assert said == repr(first_bad(record, held_to))


def checkpoints(run: Path, *names: str) -> Path:
    for name in names:
        (run / "checkpoints" / name / "items").mkdir(parents=True)
    return run / "checkpoints"


def test_spoiled_checkpoints_are_moved_and_never_counted(tmp_path: Path) -> None:
    directory = checkpoints(tmp_path, "5", "6", "7", "8", "9.orbax-checkpoint-tmp")
    assert completed_steps(directory, spoiled=7) == 7
    assert set_aside(directory, 7, "the loss of step 7 is nan") == [7, 8]
    assert completed_steps(directory) == 7
    aside = tmp_path / "set-aside"
    assert sorted(path.name for path in aside.iterdir()) == ["7", "7.txt", "8", "8.txt"]
    assert (aside / "7.txt").read_text() == "the loss of step 7 is nan\n"
    assert (aside / "7" / "items").is_dir()


def test_a_checkpoint_that_is_spoiled_again_lies_beside_the_former(tmp_path: Path) -> None:
    set_aside(checkpoints(tmp_path, "6", "7"), 7, "once")
    set_aside(checkpoints(tmp_path, "7"), 7, "again")
    assert {path.name for path in (tmp_path / "set-aside").iterdir()} == {"7", "7.txt", "7.1", "7.1.txt"}
    assert (tmp_path / "checkpoints" / "6").is_dir()


def test_where_none_is_spoiled_nothing_is_made(tmp_path: Path) -> None:
    assert set_aside(checkpoints(tmp_path, "6"), 7, "") == []
    assert not (tmp_path / "set-aside").exists()
