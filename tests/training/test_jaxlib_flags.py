"""The table of XLA's flags is of the locked jaxlib."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.training.cluster import plain_environment

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "training" / "jaxlib_flags.json"


def test_the_table_is_what_the_locked_jaxlib_says() -> None:
    """In a process of its own, which has a copy of itself parse each flag: a bad one ends a process."""
    command = [sys.executable, "-m", "training.jaxlib_flags"]
    done = subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(TABLE.read_text()), "write it anew: its module says how"


def test_the_table_knows_what_was_there_and_what_is_gone() -> None:
    table = json.loads(TABLE.read_text())
    names = {name for kind in ("on", "off", "ignored", "others") for name in table[kind]}
    assert {"--xla_gpu_all_gather_combine_threshold_bytes", "--xla_force_host_platform_device_count"} <= names
    assert not {"--xla_gpu_graph_level", "--xla_gpu_enable_async_all_gather"} & names
    assert "--xla_allow_excess_precision" in table["on"] and "--xla_gpu_enable_cudnn_fmha" in table["ignored"]
