"""How long a step, a save and an evaluation may take, from how long they took."""

from __future__ import annotations

import time

import pytest

from training.standstill import UNMEASURED_S, Activity, Lived, Pace

LEAST = 60.0


def paced(step_s: float, steps: int = 20) -> tuple[Pace, float]:
    """After so many steps of that length, and the time at which the last one ended."""
    pace, now = Pace(LEAST), 0.0
    pace.watched(now)
    for completed in range(1, steps + 1):
        now = 100.0 + completed * step_s
        pace.step(completed, now)
    return pace, now


@pytest.mark.parametrize(("step_s", "window"), [(0.1, LEAST), (2.0, LEAST), (10.0, 100.0), (60.0, 600.0)])
def test_a_step_may_take_ten_times_as_long_as_others_and_a_minute_at_least(step_s: float, window: float) -> None:
    pace, now = paced(step_s)
    assert pace.standstill(now + window) is None
    found = pace.standstill(now + window + 1)
    assert found is not None
    assert (found.activity, found.step) == (Activity.STEP, 20)
    assert found.window == pytest.approx(window)
    begins = f"stands still after step 20: a step does not end for {window + 1:.0f} s"
    assert str(found) == f"{begins}; the longest before took {step_s:.1f} s"


def test_one_step_that_was_long_allows_the_next_one_four_times_as_much() -> None:
    pace, now = paced(1.0)
    pace.step(21, now + 50)
    assert pace.standstill(now + 50 + 199) is None
    assert pace.standstill(now + 50 + 201) is not None


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_compile_a_restore_and_the_first_steps_have_no_measure(steps: int) -> None:
    pace, now = paced(1.0, steps)
    assert pace.standstill(now + UNMEASURED_S) is None
    assert pace.standstill(now + UNMEASURED_S + 1) is not None


def test_a_save_is_measured_by_saves_and_never_less_than_a_step() -> None:
    pace, now = paced(1.0)
    pace.began(Activity.SAVE, now)
    pace.step(21, now + 5)  # longer by the part of a save that blocks it
    pace.ended(Activity.SAVE, now + 20)
    pace.step(22, now + 21)
    assert pace.window(Activity.STEP) == LEAST, "what a save has disturbed measures no step"
    pace.began(Activity.SAVE, now + 30)
    assert pace.standstill(now + 21 + 200) is None
    found = pace.standstill(now + 21 + 201)
    assert found is not None and found.activity is Activity.SAVE


def test_a_save_at_every_step_measures_the_steps_too() -> None:
    pace = Pace(LEAST)
    pace.watched(0.0)
    now = 0.0
    for completed in range(1, 20):
        pace.began(Activity.SAVE, now)
        pace.step(completed, now + 1)
        pace.ended(Activity.SAVE, now + 2)
        now += 2.5
    assert pace.standstill(now + LEAST + 1) is not None


def test_an_evaluation_has_a_window_of_its_own() -> None:
    pace, now = paced(1.0)
    pace.began(Activity.EVALUATION, now)
    assert pace.standstill(now + UNMEASURED_S - 1) is None, "the first compiles too"
    pace.ended(Activity.EVALUATION, now + 30)
    pace.step(21, now + 31)
    pace.began(Activity.EVALUATION, now + 31)
    assert pace.standstill(now + 31 + 300) is None
    found = pace.standstill(now + 31 + 301)
    assert found is not None and str(found).startswith("stands still after step 21: evaluating does not end for 301 s")


def test_after_the_last_step_nothing_stands_still() -> None:
    pace, now = paced(1.0)
    pace.over()
    assert pace.standstill(now + 10 * UNMEASURED_S) is None


def test_time_in_which_the_process_did_not_run_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    lived, before = Lived(0.5), 0.0
    for _ in range(10):
        seconds += 0.5
        before = lived.now()
    assert before == pytest.approx(5.0)
    seconds += 3600.0
    assert lived.now() - before <= 1.0
