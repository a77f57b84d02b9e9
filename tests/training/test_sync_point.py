"""A stop while Orbax ends a save: JAX itself, its coordination service and a real SIGTERM, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from training import sync_point

# Step 22 is training when the save of step 20 ends, as MaxText and Orbax were seen to ask; then the stop comes.
_TRAINING = """
import os, signal, sys, threading
import jax
from jax.experimental import multihost_utils
from tests.training.cluster import free_port
from training import sync_point

address = f"127.0.0.1:{free_port()}"
jax.distributed.initialize(
    address, 1, 0, cluster_detection_method="deactivate", coordinator_bind_address=address
)
if sys.argv[1] == "in order":
    sync_point.ask_in_order()
def asked(step):
    return multihost_utils.reached_preemption_sync_point(step)
for step in range(23):
    assert not asked(step)
ends = threading.Thread(target=asked, args=(20,))
ends.start()
ends.join()
os.kill(os.getpid(), signal.SIGTERM)
sys.stdin.readline()  # until JAX has said at which step it will be
print([step for step in range(23, 40) if asked(step)], flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("how", "saved_at"), [("in order", "[23]"), ("as they come", "[]")])
def test_a_stop_is_obeyed_at_the_step_after_the_furthest(how: str, saved_at: str) -> None:
    """The second case is JAX's and Orbax's own way: once it finds a step too, this module can go."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "0", "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", _TRAINING, how],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr and process.stdin and process.stdout
        assert any("Preemption sync counter is set" in line for line in process.stderr), "it has a step"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.read().strip() == saved_at


_ROOT = Path(sync_point.__file__).parents[1]
