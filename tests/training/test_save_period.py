"""How often a run saves where its stack does not say, from measures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.save_period import derived
from training.standstill import Activity, Measures, Took

HALF_A_DAY = 12 * 3600


def measures(step_s: float, save_s: float, cost_s: float | None) -> Measures:
    return Measures({Activity.STEP: Took(step_s, 9 * step_s), Activity.SAVE: Took(save_s, 9 * save_s)}, cost_s)


def test_it_is_youngs_interval_in_steps_and_says_so_with_its_numbers() -> None:
    period = derived(measures(2.1, 20.0, 4.0), HALF_A_DAY, 100_000)
    assert period.steps == round(math.sqrt(2 * 4.0 * HALF_A_DAY) / 2.1) == 280
    assert str(period) == (
        "saves every 280 steps: a step takes 2.1 s, a save costs 4.0 s and is done after 20.0 s, "
        "one interruption in 12 h is expected"
    )


def test_more_interruptions_are_more_saves() -> None:
    assert derived(measures(2.1, 20.0, 4.0), HALF_A_DAY // 16, 100_000).steps == 280 // 4


def test_a_save_that_costs_next_to_nothing_is_not_always_under_way() -> None:
    assert derived(measures(2.0, 100.0, 0.0), HALF_A_DAY, 100_000).steps == 100


@pytest.mark.parametrize(
    ("steps", "earlier", "period"),
    [
        (400, Measures(), 100),
        (3, Measures(), 1),
        (1_000_000, Measures(), 500),
        (1_000_000, Measures({Activity.STEP: Took(60.0, 60.0)}), 30),  # no start has come to a save yet
        (1_000_000, Measures({Activity.STEP: Took(7200.0, 7200.0)}), 1),
        (1_000_000, measures(60.0, 9.0, None), 30),
    ],
)
def test_what_is_not_measured_is_a_share_of_the_run_and_half_an_hour_at_most(
    steps: int, earlier: Measures, period: int
) -> None:
    found = derived(earlier, HALF_A_DAY, steps)
    assert (found.steps, found.why) == (period, "what a save costs here is not measured yet")


def test_a_run_spec_without_interruptions_has_the_period_of_what_is_not_measured() -> None:
    assert derived(measures(2.1, 20.0, 4.0), 0, 400).steps == 100


_seconds = st.floats(0, 1e6)


@given(_seconds, _seconds, st.none() | _seconds, st.integers(0, 10**9), st.integers(1, 10**8))
def test_it_is_one_step_at_least_and_the_run_at_most(
    step_s: float, save_s: float, cost_s: float | None, interruption_s: int, steps: int
) -> None:
    assert 1 <= derived(measures(step_s, save_s, cost_s), interruption_s, steps).steps <= steps
