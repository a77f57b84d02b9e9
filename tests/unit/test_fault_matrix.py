"""0 orphans, 0 doubles and 0 taken, whichever call fails in whichever way and whatever is killed. See fault_matrix.py.

`make test` runs one case in thirty-two, by seed; `make soak` and `make bench ONLY=safe_money` run all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from infra.paths import ROOT
from tests.suite.soak import SOAK

FEWEST = {
    "create": 170,
    "update": 170,
    "recover": 250,
    "move": 330,
    "refresh": 60,
    "destroy": 230,
    "answers": 500,
    "owners": 1000,
}
SHARE = 1 / 32


@pytest.mark.long
@pytest.mark.sample(len(FEWEST))
@pytest.mark.parametrize("verb", FEWEST)
def test_fault_matrix(verb: str, pytestconfig: pytest.Config) -> None:
    seed = str(pytestconfig.getoption("--seed"))
    few = () if SOAK else ("--few", str(SHARE), seed)
    command = [sys.executable, "-m", "tests.unit.fault_matrix", *few, verb]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(f"{verb}: {result['ran']} of {result['cases']} cases, {len(result['failures'])} failures")
    assert result["failures"] == [], done.stderr
    assert result["cases"] >= FEWEST[verb]
