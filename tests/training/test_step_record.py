"""A run's record of steps, read from its beginning and from its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training.step_record import cut_half_a_line, newest_steps, read_record, step_record

HALF = '{"step": 1.0, "learn'


def line(step: int, loss: float = 5.0) -> dict[str, Any]:
    return {"step": float(step), "learning/loss": loss}


def written(record: Path, *lines: dict[str, Any], end: str = "") -> Path:
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(json.dumps(line) + "\n" for line in lines) + end)
    return record


def test_it_lies_beside_the_checkpoints_of_its_run() -> None:
    assert step_record("/runs", "small", 3) == Path("/runs/small/metrics/host-3.jsonl")


@pytest.mark.parametrize("end", ["", HALF], ids=["whole", "half a line"])
def test_whole_lines_are_read_from_either_end(tmp_path: Path, end: str) -> None:
    record = written(tmp_path / "host-0.jsonl", line(0), line(1), end=end)
    assert list(read_record(record)) == newest_steps(record, 9) == [line(0), line(1)]
    cut_half_a_line(record)
    assert len(record.read_bytes().splitlines()) == 2 and record.read_bytes().endswith(b"\n")


def test_where_nothing_is_whole_there_is_no_step(tmp_path: Path) -> None:
    for record in (tmp_path / "none.jsonl", written(tmp_path / "empty"), written(tmp_path / "half", end=HALF)):
        assert list(read_record(record)) == newest_steps(record, 9) == []
        cut_half_a_line(record)
        assert not record.exists() or record.read_bytes() == b""


def test_of_a_step_that_was_done_again_the_last_line_counts_and_none_that_came_after_the_first(tmp_path: Path) -> None:
    evaluation = {"step": 2.0, "eval/avg_loss": 5.0, "eval/total_loss": 50.0}
    before = [line(0), line(1), line(2, 7.0), line(3, 7.0)]
    record = written(tmp_path / "host-0.jsonl", *before, line(2, 8.0), evaluation)
    assert newest_steps(record, 9) == [line(0), line(1), line(2, 8.0)]
    assert newest_steps(record, 2) == [line(1), line(2, 8.0)]
    assert newest_steps(record, 9, before=2) == [line(0), line(1)]
