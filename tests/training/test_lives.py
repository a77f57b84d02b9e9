"""A sample of the soak: three lives of a training that comes to harm end as one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.suite.soak import SOAK
from tests.training.cluster import ROOT, plain_environment

# Told to stop; in a bucket, a host killed, then one in the middle of a save; no room on the disk.
_SEED = "3504"


def test_a_training_that_comes_to_harm_ends_with_the_same_losses(tmp_path: Path) -> None:
    seed = "2" if SOAK else _SEED
    command = ["unshare", "-Urm", sys.executable, "-m", "tests.training.lives", "3", "--seed", seed]
    command += ["--directory", str(tmp_path / "lives")]
    done = subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["3 of 3 bit-equal"], done.stdout + done.stderr[-3000:]
