"""0 orphans and 0 doubles of custom jobs, whichever call fails in whichever way and whatever is killed.

vertex_matrix.py says how. `make test` runs one case in thirty-two, by seed; `make soak` runs all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from infra.paths import ROOT
from tests.suite.soak import SOAK

FEWEST = 500
SHARE = 1 / 32


@pytest.mark.long
def test_vertex_matrix(pytestconfig: pytest.Config) -> None:
    seed = str(pytestconfig.getoption("--seed"))
    few = () if SOAK else ("--few", str(SHARE), seed)
    command = [sys.executable, "-m", "tests.unit.vertex_matrix", *few, "all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(f"{result['ran']} of {result['cases']} cases, {len(result['failures'])} failures")
    assert result["failures"] == [], done.stderr
    assert result["cases"] >= FEWEST
