"""A checkpoint of 200 MB in the emulated bucket against the same on this machine's disk, in turn.

Orbax writes both, with the manager that MaxText makes of its own defaults, by the clients of a bucket that hosts have.
The emulator is a process of its own and keeps its objects on the disk that the others are written to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.record import Figure, figure
from infra.paths import ROOT

REPETITIONS = 5
MEGABYTES = 200
# Writes the seconds of each save, to its end: [[bucket, disk], ...]. The first of each makes what the others find.
_SAVES = """
import json, sys, time
import jax, numpy
from maxtext.common import checkpointing

results, megabytes, repetitions, *directories = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
managers = [checkpointing.create_orbax_checkpoint_manager(each, True, True, 1) for each in directories]
random = numpy.random.default_rng(0)
state = {f"layer_{n}": jax.numpy.asarray(random.random(megabytes * 25_000, numpy.float32)) for n in range(10)}

def seconds(manager, step):
    start = time.perf_counter()
    checkpointing.save_checkpoint(manager, step, {"params": state}, force=True)
    checkpointing.wait_until_finished(manager)
    return time.perf_counter() - start

pairs = [[seconds(manager, step) for manager in managers] for step in range(repetitions + 1)]
with open(results, "w") as file:
    json.dump(pairs[1:], file)
"""


def figures(repetitions: int = REPETITIONS) -> list[Figure]:
    """Needs the hosts' Python in SLIPWAY_HOST_PYTHON."""
    with tempfile.TemporaryDirectory() as name, emulated_bucket(Path(name) / "buckets") as url:
        results = Path(name) / "results.json"
        command = [os.environ["SLIPWAY_HOST_PYTHON"], "-c", _SAVES, str(results), str(MEGABYTES), str(repetitions)]
        command += ["gs://bucket/run/checkpoints", str(Path(name) / "disk" / "checkpoints")]
        subprocess.run(command, env=_environment(url), stdout=subprocess.DEVNULL, check=True)
        bucket, disk = zip(*json.loads(results.read_text()), strict=True)
    return [
        figure("bucket_checkpoint_vs_disk", [a / b for a, b in zip(bucket, disk, strict=True)], "x", "<= 2"),
        figure("bucket_checkpoint", bucket, "s", "", megabytes=MEGABYTES),
        figure("disk_checkpoint", disk, "s", "", megabytes=MEGABYTES),
    ]


@contextmanager
def emulated_bucket(root: Path) -> Generator[str]:
    """The address of an emulator, until the context is left."""
    command = [sys.executable, "-m", "infra.emulators.object_store", "--root", str(root), "--bucket", "bucket"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def _environment(url: str) -> dict[str, str]:
    """Where the three clients find the bucket, and that they need no account (tests/training/emulated_bucket.py)."""
    return os.environ | {
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "NO_GCE_CHECK": "true",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "JAX_PLATFORMS": "cpu",
    }
