"""When a training is started again: waits grow and are spread, and what comes again is not tried a third time."""

from __future__ import annotations

import pytest

from training.endings import Cause, Ending
from training.exit_codes import ExitCode
from training.peers import Word
from training.restarts import FIRST_S, LONGEST_S, SPREAD, Restarts


def end(cause: Cause, reason: str = "it broke", *, host: int = 1, step: int = 7) -> Word:
    return Word(host, for_all=True, ending=Ending(ExitCode.FAILED, cause, reason), step=step, at="a step")


def in_the_middle() -> Restarts:
    return Restarts(lambda: 0.5)


@pytest.mark.parametrize("cause", [Cause.OUTSIDE, Cause.LOST_HOST, Cause.STANDSTILL, Cause.STOPPED])
def test_waits_double_up_to_a_bound_for_as_long_as_it_takes(cause: Cause) -> None:
    restarts = in_the_middle()
    waits = [restarts.wait_s(end(cause)) for _ in range(50)]
    assert waits[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert set(waits[6:]) == {LONGEST_S}


def test_a_step_further_is_progress_and_the_next_wait_is_short_again() -> None:
    restarts = in_the_middle()
    for _ in range(4):
        restarts.wait_s(end(Cause.LOST_HOST))
    assert restarts.wait_s(end(Cause.LOST_HOST, step=8)) == FIRST_S
    assert restarts.wait_s(end(Cause.LOST_HOST, step=8)) == 2 * FIRST_S


@pytest.mark.parametrize(("random", "share"), [(0.0, 1 - SPREAD), (0.999999, 1 + SPREAD)])
def test_waits_are_spread(random: float, share: float) -> None:
    assert Restarts(lambda: random).wait_s(end(Cause.OUTSIDE)) == pytest.approx(FIRST_S * share, rel=1e-4)


@pytest.mark.parametrize("cause", [Cause.DONE, Cause.INPUT, Cause.NUMBERS])
def test_what_another_start_cannot_change_has_none(cause: Cause) -> None:
    assert in_the_middle().wait_s(end(cause)) is None


def test_the_same_error_at_the_same_step_is_not_tried_a_third_time() -> None:
    restarts = in_the_middle()
    assert restarts.wait_s(end(Cause.TRAINING, "ValueError: at 0x7f01, 12 bytes are free")) is not None
    again = end(Cause.TRAINING, "ValueError: at 0x8f91, 4096 bytes are free")
    assert restarts.is_repeated(again)
    assert restarts.wait_s(again) is None


@pytest.mark.parametrize(
    "other",
    [
        end(Cause.TRAINING, step=8),
        end(Cause.TRAINING, "another one"),
        end(Cause.TRAINING, host=0),
        end(Cause.LOST_HOST),
        end(Cause.OUTSIDE),
    ],
    ids=["another step", "another error", "another host", "a lost host", "a service"],
)
def test_another_end_is_tried_again(other: Word) -> None:
    restarts = in_the_middle()
    restarts.wait_s(end(Cause.TRAINING))
    assert restarts.wait_s(other) is not None
