"""How long a step, a save and an evaluation may take, from how long they took; in starts before this one, too."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from training import paces
from training.plan import Plan
from training.standstill import EARLIER_S, UNMEASURED_S, Activity, Lived, Measures, Pace, Took

LEAST = 60.0


def paced(step_s: float, steps: int = 20, earlier: Measures | None = None) -> tuple[Pace, float]:
    """After so many steps of that length, and the time at which the last one ended."""
    pace, now = Pace(LEAST, earlier), 0.0
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


@pytest.mark.parametrize(("longest", "window"), [(20.0, EARLIER_S), (1200.0, 4800.0)])
def test_a_compile_may_take_four_times_as_long_as_at_earlier_starts_and_ten_minutes_at_least(
    longest: float, window: float
) -> None:
    pace = Pace(LEAST, Measures({Activity.COMPILING: Took(longest / 10, longest)}))
    pace.watched(0.0)
    assert pace.standstill(window) is None
    found = pace.standstill(window + 1)
    assert found is not None and str(found).endswith(f"; the longest before took {longest:.1f} s")


def test_a_restore_is_not_measured_by_a_start_that_had_none() -> None:
    pace = Pace(LEAST, Measures({Activity.COMPILING: Took(20.0, 20.0)}))
    pace.resumes()
    pace.watched(0.0)
    assert pace.standstill(UNMEASURED_S) is None
    pace.step(13, 50.0)
    assert pace.measures().took[Activity.RESTORING] == Took(50.0, 50.0)


def test_the_first_steps_and_saves_of_a_start_are_measured_by_those_of_earlier_ones() -> None:
    earlier = Measures({Activity.STEP: Took(1.0, 2.0), Activity.SAVE: Took(30.0, 300.0)})
    pace, now = paced(1.0, 3, earlier)
    assert pace.standstill(now + EARLIER_S) is None
    assert pace.standstill(now + EARLIER_S + 1) is not None
    pace.began(Activity.SAVE, now)
    assert pace.window(Activity.SAVE) == 1200.0
    assert paced(1.0, 7, earlier)[0].window(Activity.STEP) == LEAST, "its own steps count once there are enough"


def test_what_a_start_has_not_measured_goes_on_to_the_next() -> None:
    earlier = Measures({Activity.STEP: Took(9.0, 9.0), Activity.EVALUATION: Took(7.0, 8.0)}, 5.0)
    assert paced(1.0, 3, earlier)[0].measures().took[Activity.STEP] == Took(9.0, 9.0)
    measures = paced(1.0, 20, earlier)[0].measures()
    assert measures.took[Activity.STEP] == Took(1.0, 1.0)
    assert (measures.took[Activity.EVALUATION], measures.save_cost_s) == (Took(7.0, 8.0), 5.0)


def test_a_save_costs_what_the_steps_beside_it_take_longer_not_what_it_takes() -> None:
    """A save of 30 s holds one step up for 4 s and slows others down; an evaluation between is none of it."""
    pace, now = paced(2.0)
    pace.began(Activity.SAVE, now + 1)
    pace.step(21, now + 6)
    pace.began(Activity.EVALUATION, now + 6)
    pace.step(22, now + 10)  # MaxText says of a step that it is done when it evaluates already
    pace.ended(Activity.EVALUATION, now + 26)
    pace.step(23, now + 29)
    pace.ended(Activity.SAVE, now + 31)
    pace.step(24, now + 32)
    assert pace.measures().save_cost_s is None, "a step like others tells that it is over"
    pace.step(25, now + 34)
    # Steps of 6, 0, 3 and 3 s, where four take 8 s.
    assert pace.measures().save_cost_s == pytest.approx(4.0)
    assert pace.measures().took[Activity.SAVE] == Took(30.0, 30.0)


def test_saves_that_follow_each_other_share_what_they_cost() -> None:
    pace, now = paced(1.0)
    for save in range(2):
        pace.began(Activity.SAVE, now + 3 * save)
        pace.step(21 + save, now + 3 * save + 3)
        pace.ended(Activity.SAVE, now + 3 * save + 3)
    pace.step(23, now + 7)
    pace.step(24, now + 8)
    assert pace.measures().save_cost_s == pytest.approx(2.0)


PLAN = Plan(1, 2, "h:1", 4, 8, 100, 64, "/c", "/s", "/m", 30, 600, 60, 0, 0.0, "", {"steps": 100, "base_emb_dim": 64})
MEASURES = Measures({Activity.STEP: Took(1.5, 2.5), Activity.SAVE: Took(30.0, 31.0)}, 0.25)


def test_what_is_kept_is_read_by_the_next_start_of_the_same_training(tmp_path: Path) -> None:
    paces.write(tmp_path, paces.shape(PLAN), MEASURES)
    longer = dataclasses.replace(PLAN, steps=900, maxtext=PLAN.maxtext | {"steps": 900, "checkpoint_period": 7})
    assert paces.read(tmp_path, paces.shape(longer)) == MEASURES
    assert [path.name for path in tmp_path.iterdir()] == ["paces.json"]


@pytest.mark.parametrize(
    "changes", [{"count": 4}, {"devices_per_host": 8}, {"maxtext": PLAN.maxtext | {"base_emb_dim": 65}}]
)
def test_another_training_measures_anew(tmp_path: Path, changes: dict[str, object]) -> None:
    paces.write(tmp_path, paces.shape(PLAN), MEASURES)
    other = dataclasses.replace(PLAN, **changes)  # pyright: ignore[reportArgumentType]
    assert paces.read(tmp_path, paces.shape(other)) == Measures()


KEPT = json.loads(paces.to_text("s", MEASURES))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "{}", json.dumps(KEPT)[:-9]),
        *(json.dumps(KEPT | other) for other in ({"version": 2}, {"took": {"NAPPING": [1, 2]}}, {"took": None})),
        *(
            json.dumps(KEPT | {"took": {"STEP": pair}})
            for pair in ([1], [1, 2, 3], [1, float("nan")], [-1, 2], [10**400, 2], ["a", 2])
        ),
    ],
)
def test_a_file_that_is_not_of_this_release_or_not_whole_is_none(text: str) -> None:
    assert paces.parse(json.dumps(KEPT), "s") == MEASURES
    assert paces.parse(text, "s") == Measures()


def test_no_file_and_one_that_is_no_text_are_none(tmp_path: Path) -> None:
    assert paces.read(tmp_path, "s") == Measures()
    (tmp_path / paces.FILE_NAME).write_bytes(b"\xff\xfe")
    assert paces.read(tmp_path, "s") == Measures()
