"""A sample of the soak: a short life of a training that comes to harm ends as one that does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.training.cluster import ROOT, plain_environment
from tests.training.lives import HOSTS, SHORT

# Of two slices: no room on the disk, then told to stop.
_SEED = "8223696"


@dataclass(frozen=True)
class Lived:
    directory: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    directory = tmp_path_factory.mktemp("lives") / "lives"
    command = ["unshare", "-Urm", sys.executable, "-m", "tests.training.lives", "1", "--short", "--seed", _SEED]
    command += ["--directory", str(directory)]
    done = subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True, check=False)
    return Lived(directory, done)


def test_a_training_that_comes_to_harm_ends_with_the_same_losses(lived: Lived) -> None:
    said = lived.done.stdout
    assert said.splitlines()[-1:] == ["1 of 1 bit-equal"], said + lived.done.stderr[-3000:]


def test_full_disk_ends_both_hosts(lived: Lived) -> None:
    """One host's write failed in a thread of Orbax, the other waited for it in a barrier of 1,200 s."""
    ends = re.findall(
        r" failed: [^()]*no space left on the disk: [^()]*the previous checkpoint stands", lived.done.stdout
    )
    assert len(ends) == HOSTS, lived.done.stdout


def test_run_of_two_slices_trains_through_launch(lived: Lived) -> None:
    """The life without harm: a slice of one host and another, as `slices: 2` of a stack makes them, by our patch."""
    hosts = [lived.directory / "reference of 2" / f"host {index}" for index in range(HOSTS)]
    for host in hosts:
        assert "shape (1, 2, 1, 2, 1" in (host / "log").read_text()  # data parallel over the slices, FSDP inside
    one, other = json.loads((lived.directory / "reference of 2.json").read_text())
    steps = [step for curve, step, _ in one if curve == "loss"]
    assert steps == list(range(SHORT.steps)) and one == other
