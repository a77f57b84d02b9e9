"""The record of a run's steps, `metrics/host-N.jsonl`: a line of MaxText's metrics per step, across all its starts.

A run that resumes does steps again, so a step may stand in it several times; the last one counts. A kill or a full disk
may leave half a line at its end. Owns where it lies and how it is read, from its end where the newest steps are wanted:
a run of a million steps has 250 MB of it. Refuses to own what is written (training/metrics.py) and what the numbers
mean (training/loss_judge.py). A leaf: standard library only.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def step_record(output_directory: str, run_name: str, index: int) -> Path:
    """The record of host `index` of a run in a local directory."""
    return Path(output_directory) / run_name / "metrics" / f"host-{index}.jsonl"


def read_record(path: Path) -> Iterator[dict[str, Any]]:
    """All whole lines, oldest first; none where there is no file."""
    if path.exists():
        with path.open() as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))


def newest_steps(path: Path, count: int, before: float = math.inf) -> list[dict[str, Any]]:
    """Lines of the newest `count` steps that count, of those before step `before`; ascending."""
    newest: list[dict[str, Any]] = []
    for line in _backwards(path):
        if "learning/loss" in line and line["step"] < before:
            newest.append(line)
            before = line["step"]
            if len(newest) == count:
                break
    return newest[::-1]


def cut_half_a_line(path: Path) -> None:
    """Take it off the end, where the next line would be added to it."""
    with _mapped(path) as text:
        size, whole = len(text), _end_of_lines(text)
    if whole < size:
        os.truncate(path, whole)


def _backwards(path: Path) -> Iterator[dict[str, Any]]:
    with _mapped(path) as text:
        end = _end_of_lines(text)
        while end:
            start = text.rfind(b"\n", 0, end - 1) + 1
            yield json.loads(text[start:end])
            end = start


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The text of a record; of a file that is empty or absent, which nothing can map, no bytes."""
    if not path.exists() or not path.stat().st_size:
        yield b""
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        yield text


def _end_of_lines(text: mmap.mmap | bytes) -> int:
    return text.rfind(b"\n") + 1
