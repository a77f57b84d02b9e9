"""From the `up` after a preemption to training again, in `slipway emulate tpu --boot`: a slice of two hosts.

Provisioning takes no time there, as the emulator's clock runs a thousand times faster, and restoring with compiling is
taken off as the hosts have measured it: both are the cloud's and the model's. Counted are the engine, the request, the
boot of new hosts with empty disks, their installation, the copy of the text and the hosts' meeting.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from bench.record import Figure, figure
from tests.engine.booted_cloud import UNTIL_PREEMPTED, Slice, emulated, write_stack
from tests.engine.clone import Clone
from tests.engine.project import until
from training.host_status import read_status
from training.paces import FILE_NAME
from training.standstill import Activity

REPETITIONS = 3
_STACK, _HOSTS = "vcpu-2", 2
_HOME = Path("var", "lib", "slipway", "host")


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        clone = Clone.make(Path(name) / "clone")
        write_stack(clone, _STACK, UNTIL_PREEMPTED)
        with emulated(clone, Path(name)) as emulator:
            vcpu = Slice(clone, emulator, _STACK)
            vcpu.train_until_preempted()
            seconds = [_again(vcpu) for _ in range(REPETITIONS)]
            vcpu.pulumi("destroy")
    return [figure("preempted_slice_to_training", seconds, "s", "<= 60")]


def _again(vcpu: Slice) -> float:
    """Seconds until the last host trains; then it is preempted once more."""
    began = time.time()
    vcpu.pulumi("up")
    until(lambda: len(_first_steps(vcpu)) == _HOSTS, "all hosts train")
    trained = max(_first_steps(vcpu))
    disk = vcpu.emulator.disks()[0]
    until(lambda: (disk / _HOME / FILE_NAME).exists(), "it has measured how long it restored and compiled")
    median, _ = json.loads((disk / _HOME / FILE_NAME).read_text())["took"][Activity.RESTORING.name]
    vcpu.emulator.preempt()
    return trained - began - median


def _first_steps(vcpu: Slice) -> list[float]:
    statuses = [read_status(disk / _HOME) for disk in vcpu.emulator.disks()]
    return [status.first_step_at for status in statuses if status and status.first_step_at]
