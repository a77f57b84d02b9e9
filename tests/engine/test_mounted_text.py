"""A host that boots, mounts the bucket with its text, and trains from it, in `slipway emulate tpu --boot`."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.engine.booted_cloud import NAMES, SAVE_EVERY, UNTIL_PREEMPTED, Slice, emulated, log, write_stack
from tests.engine.clone import Clone
from tests.engine.project import until


@pytest.mark.sample(0)  # a host installs some 300 MB; tests/training/test_mounted.py has what can go wrong
def test_a_host_trains_from_a_mount_of_its_bucket_which_is_made_again(tmp_path: Path) -> None:
    clone = Clone.make(tmp_path / "clone")
    write_stack(clone, "vcpu-1", UNTIL_PREEMPTED, data_on_hosts="mount")
    with emulated(clone, tmp_path) as emulator:
        vcpu = Slice(clone, emulator, "vcpu-1")
        vcpu.pulumi("up")
        until(lambda: vcpu.completed() >= SAVE_EVERY, "a checkpoint is in the bucket, besides that of the first step")
        (disk,) = emulator.disks()
        home, data = disk / "var/lib/slipway", vcpu.spec().data
        assert data and data.mounted_from == f"gs://{NAMES.data_bucket}/prepared/{data.content}"
        assert f"slipway: the data is read through a mount of {data.mounted_from}: " in log_of(disk, "slipway")
        assert not (home / "host" / "data").exists(), "nothing is copied"
        mounted = f"mount: gs://{NAMES.data_bucket}/prepared at /var/lib/slipway/data-mount"
        assert log_of(disk, "system").count(mounted) == 1, log(disk)
        for pid in emulator.processes():
            with contextlib.suppress(OSError):
                if b"programs/gcsfuse" in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]:
                    os.kill(pid, signal.SIGKILL)
        until(lambda: log_of(disk, "system").count(mounted) == 2, "its service has begun to mount again")
        vcpu.completed()
        vcpu.pulumi("destroy")
        nothing_is_left_but_runs(vcpu)


def nothing_is_left_but_runs(stack: Slice) -> None:
    emulator = stack.emulator
    assert (emulator.state()["requests"], emulator.state()["nodes"]) == ([], [])
    until(lambda: not emulator.processes() and not emulator.disks(), "a deleted node's hosts are gone")


def log_of(disk: Path, journal: str) -> str:
    return (disk / "var/log/journal" / f"{journal}.jsonl").read_text()
