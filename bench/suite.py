"""The suite itself: how long it takes, whether it finds deliberate defects, and what it covers. Nothing else may run.

Takes about an hour: the suite twice (once measured), `make quick`, and every defect.
"""

from __future__ import annotations

import os
import re
import subprocess
import time

from bench.record import Figure, reaches
from infra.paths import ROOT
from tests.suite import coverage


def figures() -> list[Figure]:
    return [_minutes(), _quick(), _defects(), _coverage()]


def _make(*targets: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Seconds, and how it ended."""
    start = time.perf_counter()
    plain = {name: value for name, value in os.environ.items() if name not in ("ONLY", "ARGS", "MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(["make", *targets], cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    return time.perf_counter() - start, done


def _timed(name: str, value: float, unit: str, reach: str, done: subprocess.CompletedProcess[str]) -> Figure:
    passed = re.search(r"^\d+ passed, \d+ failed$", done.stdout, re.MULTILINE)
    detail = {"exit": done.returncode, "tests": passed[0] if passed else done.stdout[-500:]}
    return Figure(name, value, unit, reach, done.returncode == 0 and reaches(value, reach), detail)


def _minutes() -> Figure:
    took, done = _make("lint", "test")
    return _timed("suite: make lint and make test", took / 60, "min", "<= 12", done)


def _quick() -> Figure:
    took, done = _make("quick")
    return _timed("suite: make quick", took, "s", "<= 90", done)


def _defects() -> Figure:
    _, done = _make("defects")
    told = re.search(r"^(\d+) of (\d+) defects found", done.stdout, re.MULTILINE)
    found, of = (int(told[1]), int(told[2])) if told else (0, 0)
    ok = done.returncode == 0 and found == of >= 40
    return Figure("suite: deliberate defects found", found, f"of {of}", ">= 40", ok)


def _coverage() -> Figure:
    code, now = coverage.measure()
    fallen = coverage.lower(now, coverage.read(coverage.BASELINE.read_text()))
    ok = code == 0 and not fallen
    return Figure("suite: rooms less covered than at 29e51af", len(fallen), "rooms", "<= 0", ok, {"rooms": fallen})
