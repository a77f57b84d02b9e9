"""What is usual of a run's steps, by the lines of its record."""

from __future__ import annotations

from typing import Any

from training.step_times import NEWEST, STEP_S, Speed, speed_of


def lines(count: int, seconds: float, tflops: float | None = 100.0) -> list[dict[str, Any]]:
    work = {} if tflops is None else {"perf/per_device_tflops": tflops}
    return [{"learning/loss": 5.0, STEP_S: seconds} | work] * count


def test_of_few_steps_and_of_steps_without_a_time_nothing_is_usual() -> None:
    assert speed_of([]) is None
    assert speed_of([*lines(7, 0.5), *({"learning/loss": 5.0},) * 9]) is None
    assert speed_of(lines(8, 0.5)) == Speed(0.5, 200.0)


def test_a_save_and_a_slow_step_change_nothing_and_old_steps_do_not_count() -> None:
    assert speed_of([*lines(5, 0.5), *lines(2, 30.0), *lines(5, 0.5)]) == Speed(0.5, 200.0)
    assert speed_of([*lines(NEWEST, 9.0), *lines(NEWEST, 0.25)]) == Speed(0.25, 400.0)


def test_steps_in_which_a_device_does_more_or_less_do_not_count() -> None:
    """Half of the hosts go on with a run: each device does twice as much."""
    assert speed_of([*lines(20, 0.5), *lines(8, 1.0, 200.0)]) == Speed(1.0, 200.0)
    assert speed_of([*lines(20, 0.5), *lines(7, 1.0, 200.0)]) is None
    assert speed_of(lines(8, 0.5, tflops=None)) == Speed(0.5, None)
