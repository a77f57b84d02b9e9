"""0 orphans and 0 doubles, whichever call fails in whichever way and whatever is killed. See fault_matrix.py."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from infra.paths import ROOT

FEWEST = {"create": 280, "update": 280, "recover": 360, "move": 440, "refresh": 130, "destroy": 350, "answers": 600}


@pytest.mark.parametrize("verb", FEWEST)
def test_fault_matrix(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.fault_matrix", verb], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(f"{verb}: {result['cases']} cases, {len(result['failures'])} failures")
    assert result["failures"] == [], done.stderr
    assert result["cases"] >= FEWEST[verb]
