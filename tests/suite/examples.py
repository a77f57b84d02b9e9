"""Tests for the test of the suite (tests/unit/test_suite.py): what pytest collects only where this file is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = "EXAMPLES_FOLDER"


def test_passes() -> None:
    assert True


def test_fails_the_first_time() -> None:
    ran = Path(os.environ[FOLDER], "ran")
    before = ran.exists()
    ran.touch()
    assert before


@pytest.mark.parametrize("case", ["a", "b's $x"])
def test_fails_always(case: str) -> None:
    raise AssertionError(case)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", range(20))
def test_sampled(case: int) -> None:
    assert case < 20


def test_a_child_is_interrupted() -> None:
    command = "import time; print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate()
    assert child.returncode == -signal.SIGINT
