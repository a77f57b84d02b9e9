"""Hosts that really boot, in `slipway emulate tpu --boot`: from an empty disk by the startup script to a run's end."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from infra.emulators.tpu_hosts.init import LABEL
from infra.labelled_processes import labelled
from tests.engine.clone import TINY, Clone, said
from tests.engine.project import until

STACK, STEPS = "vcpu-2", 6


class Emulator:
    """The command, in a shell of its own."""

    def __init__(self, clone: Clone) -> None:
        command = clone.command("slipway", "emulate", "tpu", "--boot", "--port", "0", "--speed", "1000")
        self.process = subprocess.Popen(
            command, cwd=clone.directory, env=clone.environment, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        lines = [self.process.stdout.readline() for _ in range(3)]
        self.hosts = Path(re.findall(r" in (/\S+); ", lines[0])[0])
        self.services, self.page = (re.findall(r"http://\S+", line)[0] for line in lines[:2])
        self.exports = dict(re.findall(r"(\w+)=(http://\S+)", lines[2]))

    def state(self) -> dict[str, Any]:
        return httpx.get(f"{self.page}/_/state").json()

    def hosts_that_logged(self, text: str) -> set[str]:
        entries = httpx.get(f"{self.services}/_/entries").json()
        return {
            each["resource"]["labels"]["node_id"] for each in entries if each["jsonPayload"]["message"].startswith(text)
        }

    def processes(self) -> list[int]:
        """Of all hosts."""
        return [each.pid for each in labelled(LABEL, lambda value: value.startswith(str(self.hosts)))]

    def disks(self) -> list[Path]:
        return sorted(self.hosts.iterdir())


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    clone = Clone.make(tmp_path / "clone")
    document = yaml.safe_load((clone.directory / "stacks" / "Pulumi.v6e-8.yaml").read_text())
    training = TINY | {"ici_fsdp_parallelism": 2}
    config = {"accelerator": STACK, "steps": STEPS, "runs": str(tmp_path / "runs"), "training": training}
    config |= {"project": "try-it", "fit": "unchecked", "zones": ["us-east5-b"], "data_options": {"vocab_size": 512}}
    del document["config"]["slipway:max_usd_per_hour"]  # it costs nothing, but no table says so
    document["config"] |= {f"slipway:{key}": value for key, value in config.items()}
    (clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(document))
    return clone


@pytest.fixture
def emulator(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    emulator = Emulator(clone)
    for name, value in emulator.exports.items():
        monkeypatch.setenv(name, value)
    with emulator.process:
        yield emulator
        emulator.process.kill()
    until(lambda: not emulator.processes(), "hosts end with their emulator, however it ends")


@pytest.mark.sample(0)  # two minutes of a processor: two hosts install some 300 MB each
def test_a_slice_boots_installs_trains_and_says_so(clone: Clone, emulator: Emulator) -> None:
    """What `slipway emulate tpu --boot` is for, from an empty disk to a finished run."""
    up = clone.pulumi("up", STACK)
    assert up.returncode == 0, said(up) + "".join(map(log, emulator.disks()))
    (node,) = emulator.state()["nodes"]
    assert node["hosts"] == [True, True]
    until(lambda: all(map(has_finished, emulator.disks())), "both hosts have finished")
    hosts = until(lambda: finished(clone), "the hosts' word of it is read")
    assert [(host["phase"], host["step"]) for host in hosts] == [("finished", STEPS)] * 2
    names = {disk.name for disk in emulator.disks()}
    until(lambda: emulator.hosts_that_logged("slipway: finished") == names, "their logs are in Cloud Logging")

    destroyed = clone.pulumi("destroy", STACK)
    assert destroyed.returncode == 0, said(destroyed)
    until(lambda: not emulator.processes(), "a deleted node's processes have ended")
    emulator.process.send_signal(signal.SIGINT)
    assert emulator.process.wait(timeout=900) == 0


def has_finished(disk: Path) -> bool:
    said = log(disk)
    assert "slipway: failed" not in said, said
    return "slipway: finished at step" in said


def finished(clone: Clone) -> list[dict[str, Any]]:
    hosts = clone.status(STACK)["hosts"]
    return hosts if all(host["phase"] == "finished" for host in hosts) else []


def log(disk: Path) -> str:
    """What its training and its boot have written."""
    files = ("var/log/journal/slipway.jsonl", "var/log/startup-script.log", "var/log/journal/system.jsonl")
    return "".join(f"{file}:\n{(disk / file).read_text()[-3000:]}\n" for file in files if (disk / file).exists())
