"""training/maxtext_schema.json is what its generator makes from the installed MaxText."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.training.cluster import ROOT
from training.model_shapes import shapes

COMMITTED = ROOT / "training" / "maxtext_schema.json"


def test_committed_schema_is_the_installed_maxtexts() -> None:
    command = [sys.executable, "-m", "training.maxtext_schema"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert made.stdout == COMMITTED.read_text(), (
        "run `python -m training.maxtext_schema > training/maxtext_schema.json`"
    )


def test_committed_model_shapes_are_the_installed_maxtexts() -> None:
    assert json.loads((ROOT / "training" / "model_shapes.json").read_text()) == shapes(), (
        "run `python -m training.model_shapes > training/model_shapes.json`"
    )


def test_schema_has_types_and_allowed_values() -> None:
    fields = json.loads(COMMITTED.read_text())["fields"]
    assert fields["steps"] == {"types": ["integer"]}
    assert fields["per_device_batch_size"] == {"types": ["integer", "number"]}
    assert fields["hardware"] == {"types": ["string"], "enum": ["cpu", "gpu", "gpu_multiprocess", "tpu"]}
    assert "minimal_with_context" in fields["remat_policy"]["enum"]
    assert fields["max_num_checkpoints_to_keep"]["types"] == ["integer", "null"]
