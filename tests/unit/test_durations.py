"""Lengths of time, read and said."""

from __future__ import annotations

import pytest

from infra import durations


@pytest.mark.parametrize(
    ("total", "said"), [(90, "90s"), (5400, "90m"), (86_400, "1d"), (604_800, "7d"), (90_000, "25h"), (5400.5, "1.5h")]
)
def test_a_length_is_said_in_the_largest_unit_that_leaves_nothing_over(total: float, said: str) -> None:
    assert durations.text(total) == said


@pytest.mark.parametrize("text", ["0s", "", "-1h", "1.5h", "h", "1w", "1h30m"])
def test_what_is_no_length_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="like 90m, 24h or 7d"):
        durations.seconds(text)
