"""From the startup script of a host that boots to the process that trains on it, in `slipway emulate tpu --boot`.

Without the engine: a node is asked for, and its one host begins with an empty disk each time. Its wheels and its bundle
lie in a directory of this machine, so that nothing is downloaded.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from bench.record import Figure, figure
from infra.artifacts.store import LocalStore
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, TpuApi
from infra.emulators.tpu_hosts import booted_cloud
from infra.emulators.tpu_hosts.fleet import Fleet
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.init import LABEL
from infra.emulators.tpu_hosts.view import SharedDirectory
from infra.host_software import wheelhouses
from infra.host_software.bundle import BundleContents, collect, put
from infra.host_software.wheels.locks import STABLE, lock_path
from infra.host_software.wheels.python_made_here import make_archive
from infra.labelled_processes import labelled
from infra.paths import ARTIFACTS, PYTHONS, TRAINING
from infra.vm_hosts.startup_script import HostScript, startup_script
from tests.emulators.instant import INSTANT
from tests.training.tiny import TINY
from training.run_spec import RunSpec

REPETITIONS = 5
_PLACE = "projects/p/locations/us-east5-b"
_TRAINS = "training.trainer"  # training/supervisor.py starts it
_PAUSE_S, _DEADLINE_S = 0.2, 600


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name) / "runs"
        runs.mkdir()
        script, shared = _script(runs), (SharedDirectory(ARTIFACTS), SharedDirectory(runs, is_writable=True))
        seconds = [_boot(Path(name) / str(number), script, shared) for number in range(REPETITIONS)]
    return [figure("startup_script_to_training", seconds, "s", "<= 20")]


def _script(runs: Path) -> str:
    """Of a stack of one host, whose software is in the store of this clone."""
    wheels = wheelhouses.inputs_of("cpu", STABLE, None, str(make_archive(PYTHONS)))
    assert wheels.python
    wheelhouses.ensure_built(wheels)
    spec = RunSpec("bench", "run", "cpu", 1, 1, 1, 1_000_000, str(runs), None, TINY)
    lock = lock_path("cpu", STABLE)
    bundle = collect(TRAINING, BundleContents(spec.to_yaml(), wheels.id, lock, python=wheels.python.sum_line))
    put(bundle, LocalStore(ARTIFACTS))
    host = HostScript("bench", 1, 1, 1, str(ARTIFACTS), bundle.hash)
    return startup_script(host, (TRAINING / "bootstrap.sh").read_text())


def _boot(directory: Path, script: str, shared: Sequence[SharedDirectory]) -> float:
    """Seconds, by the clocks of file and process."""
    with (
        TpuApi(Cloud(INSTANT)) as api,
        ObjectStore(directory / "buckets") as store,
        booted_cloud.boot(api, store, directory / "hosts", shared=shared) as cloud,
    ):
        metadata = {"startup-script": script, "enable-guest-attributes": "TRUE"}
        node = {"acceleratorType": "vcpu-1", "runtimeVersion": "tpu-ubuntu2204-base", "metadata": metadata}
        request = {"tpu": {"nodeSpec": [{"parent": _PLACE, "nodeId": "n", "node": node}]}}
        httpx.post(f"{api.url}/v2/{_PLACE}/queuedResources?queuedResourceId=q", json=request).raise_for_status()
        training = _training_process(cloud.fleet)
        (disk,) = cloud.fleet.directory.iterdir()
        return training.create_time() - Image(disk).startup_script.stat().st_mtime


def _training_process(fleet: Fleet) -> psutil.Process:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        for process in labelled(LABEL, lambda value: value.startswith(str(fleet.directory))):
            if _trains(process):
                return process
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"nothing trains below {fleet.directory} after {_DEADLINE_S} s")


def _trains(process: psutil.Process) -> bool:
    try:
        return _TRAINS in process.cmdline()
    except psutil.Error:
        return False  # ended meanwhile
