"""Stacks whose hosts really boot, in `slipway emulate tpu --boot`, and what is left of them: for tests of their lives.

Checkpoints lie in the emulated bucket, where hosts find it as at Google: by variables of their environment that the
emulator sets, of which no code in training/ knows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from infra import names
from infra.emulators.tpu_hosts import network
from infra.emulators.tpu_hosts.init import LABEL
from infra.host_software import wheelhouses
from infra.labelled_processes import labelled
from tests.engine.clone import TINY, Clone, said
from tests.engine.project import until
from tests.training.cluster import COMPILED, Cluster, losses
from training.checkpoints import completed_steps
from training.run_spec import RunSpec, parse

PROJECT, REGION = "try-it", "us-east5"
NAMES = names.of(PROJECT, REGION, "slipway")
FOUNDATION = f"foundation.{REGION}"
UNTIL_PREEMPTED, SAVE_EVERY, MORE_STEPS = 1_000_000, 20, 6
TEXT = "infra/**/*.py; training/**/*.py"  # of the clone, enough for as many steps
SPEED = 1000  # of the emulator's clock, but while a preemption takes its time


class Emulator:
    """The command, in a shell of its own; what it has lies below `directory`."""

    def __init__(self, clone: Clone, directory: Path) -> None:
        state = directory / "cloud"
        self.hosts, self.buckets = Path(f"{state}.hosts"), Path(f"{state}.buckets")
        options = ("--boot", "--port", "0", "--speed", str(SPEED), "--state", str(state))
        self.process = subprocess.Popen(
            clone.command("slipway", "emulate", "tpu", *options),
            cwd=clone.directory,
            env=clone.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        lines = [self.process.stdout.readline() for _ in range(3)]
        self.services, self.page = (re.findall(r"http://\S+", line)[0] for line in lines[:2])
        self.exports = dict(re.findall(r"(\w+)=(http://\S+)", lines[2]))

    def state(self) -> dict[str, Any]:
        return httpx.get(f"{self.page}/_/state").json()

    def pull(self, lever: str, **arguments: Any) -> None:
        httpx.post(f"{self.page}/_/{lever}", json=arguments).raise_for_status()

    def preempt(self) -> None:
        """Takes a node away, in the time that it takes, to the end of all hosts and of their disks."""
        self.pull("speed", speed=1)
        self.pull("preempt", name=self.state()["nodes"][-1]["name"])
        until(lambda: not self.processes(), "the hosts have ended within their notice")
        self.pull("speed", speed=SPEED)
        until(lambda: not self.disks(), "their disks are gone with their node")

    def hosts_that_logged(self, text: str) -> set[str]:
        entries = httpx.get(f"{self.services}/_/entries").json()
        return {
            each["resource"]["labels"]["node_id"] for each in entries if each["jsonPayload"]["message"].startswith(text)
        }

    def processes(self) -> list[int]:
        """Of all hosts."""
        return [each.pid for each in labelled(LABEL, lambda value: value.startswith(str(self.hosts)))]

    def sought_elsewhere(self) -> set[str]:
        """Addresses that a host has looked for in vain, where hosts have networks of their own."""
        own = self.processes() if network.permitted() else []
        return set[str]().union(*(network.beside(pid, network.sought) for pid in own))

    def disks(self) -> list[Path]:
        return sorted(self.hosts.iterdir()) if self.hosts.exists() else []


def write_stack(clone: Clone, stack: str, steps: int, batch: int = 1, **keys: Any) -> None:
    """`stack` is named after its accelerator and, if there are several, its slices; `batch` is per device.

    Fewer or more steps are the same run, since the schedule of the learning rate does not depend on them.
    """
    accelerator, _, slices = stack.partition("x")
    document = yaml.safe_load((clone.directory / "stacks" / "Pulumi.v6e-8.yaml").read_text())
    training = TINY | {"checkpoint_period": SAVE_EVERY, "learning_rate_schedule_steps": UNTIL_PREEMPTED}
    training |= {"ici_fsdp_parallelism": int(accelerator.rpartition("-")[2]), "eval_interval": -1}
    training |= {"per_device_batch_size": batch}
    config = {"accelerator": accelerator, "steps": steps, "training": training, "tier": "spot", "data": TEXT}
    config |= {"data_options": {"vocab_size": 512, "record_bytes": 1024, "max_epochs": 1000}}
    config |= {"project": PROJECT, "fit": "unchecked", "zones": [f"{REGION}-b"], "wait": False}
    config |= ({"slices": int(slices)} if slices else {}) | keys
    del document["config"]["slipway:max_usd_per_hour"]  # it costs nothing, but no table says so
    document["config"] |= {f"slipway:{key}": value for key, value in config.items()}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


@dataclass(frozen=True)
class Slice:
    """A stack whose hosts boot, and its run in the bucket. Its name is that of its accelerator, and how many slices."""

    clone: Clone
    emulator: Emulator
    stack: str

    def pulumi(self, verb: str) -> str:
        done = self.clone.pulumi(verb, self.stack, "--color", "never")
        assert done.returncode == 0, said(done) + "".join(map(log, self.emulator.disks()))
        return " ".join(said(done).split())  # the engine breaks lines

    def train_until_preempted(self) -> int:
        """Steps in the newest checkpoint then."""
        write_stack(self.clone, self.stack, UNTIL_PREEMPTED)
        self.pulumi("up")
        until(lambda: self.completed() >= SAVE_EVERY, "a checkpoint is in the bucket, besides that of the first step")
        self.emulator.preempt()
        return self.completed()

    def resume(self, steps: int, **keys: Any) -> None:
        """On new hosts with new disks, to the end of the run. With `wait` `up` takes up to half a minute more."""
        write_stack(self.clone, self.stack, steps, **keys)
        assert "is SUSPENDED (preempted): deleting it, then asking again" in self.pulumi("up")
        self.finish(steps)

    def finish(self, steps: int) -> None:
        until(lambda: all(map(has_finished, self.emulator.disks())), "all hosts have finished")
        until(lambda: self.shown() == {("finished", steps)}, "the emulator's page shows it of every host")

    def shown(self) -> set[tuple[str, int]]:
        """Phases and steps of all hosts."""
        return {(host["phase"], host["step"]) for host in self.emulator.state()["hosts"]}

    @property
    def run(self) -> Path:
        """The one that there is in the bucket of this stack."""
        (run,) = (self.emulator.buckets / NAMES.checkpoints_bucket / self.stack).iterdir()
        return run

    def completed(self) -> int:
        assert all(map(goes_on, self.emulator.disks()))
        bucket = self.emulator.buckets / NAMES.checkpoints_bucket
        found = [completed_steps(each, remote=True) for each in bucket.glob(f"{self.stack}/*/checkpoints")]
        return max(found, default=0)

    def spec(self) -> RunSpec:
        """That of the last start, as the record of the run has it."""
        newest = max(self.run.glob("starts/*.json"))
        return parse(json.loads(newest.read_text())["run_spec"])

    def spec_here(self, steps: int | None = None) -> RunSpec:
        """The same, or of more steps, of hosts that read the text where `up` has prepared it."""
        spec = self.spec()
        spec = dataclasses.replace(spec, steps=steps or spec.steps)
        assert spec.data
        directory = self.clone.directory / ".slipway" / "data" / spec.data.content
        return dataclasses.replace(spec, data=dataclasses.replace(spec.data, directory=str(directory)))


@contextlib.contextmanager
def emulated(clone: Clone, directory: Path) -> Iterator[Emulator]:
    """With the buckets of the stacks that the clone has now, for every process that is started meanwhile."""
    emulator = Emulator(clone, directory)
    with pytest.MonkeyPatch.context() as patch, emulator.process:
        for name, value in emulator.exports.items():
            patch.setenv(name, value)
        try:
            yield emulator
        finally:
            emulator.process.kill()
    until(lambda: not emulator.processes(), "hosts end with their emulator, however it ends")


def there_is_no_foundation(stack: Slice) -> None:
    write_stack(stack.clone, stack.stack, UNTIL_PREEMPTED)
    refused = " ".join(said(stack.clone.pulumi("up", stack.stack)).split())  # the engine breaks lines
    assert f"there is no foundation in {REGION} yet: no bucket gs://{NAMES.artifacts_bucket}" in refused, refused


def make_foundation(clone: Clone) -> None:
    file = clone.directory / "stacks" / f"Pulumi.{FOUNDATION}.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["slipway:project"] = PROJECT
    file.write_text(yaml.safe_dump(document))
    made = clone.pulumi("up", FOUNDATION)
    assert made.returncode == 0, said(made)


def nothing_is_left(stack: Slice) -> None:
    """But the run in its bucket, and what hosts installed, which `slipway gc` removes."""
    emulator = stack.emulator
    assert (emulator.state()["requests"], emulator.state()["nodes"]) == ([], [])
    until(lambda: not emulator.processes() and not emulator.disks(), "a deleted node's hosts are gone")
    assert kept_in(emulator.buckets / NAMES.artifacts_bucket) == {"bundles", "objects", "wheelhouses"}
    assert kept_in(emulator.buckets / NAMES.checkpoints_bucket) == {stack.stack}
    assert completed_steps(stack.run / "checkpoints", remote=True) == stack.spec().steps


def every_host_has_copied_its_text(stack: Slice) -> None:
    """From the foundation's bucket, to a disk that had nothing of it."""
    data = stack.spec().data
    assert data and data.directory == f"gs://{NAMES.data_bucket}/prepared/{data.content}"
    stored = stack.emulator.buckets / NAMES.data_bucket / "prepared" / data.content
    files = {path.name: path.read_bytes() for path in stored.iterdir()}
    for disk in stack.emulator.disks():
        copy = disk / "var" / "lib" / "slipway" / "host" / "data" / data.content
        assert {path.name: path.read_bytes() for path in copy.iterdir() if path.name in files} == files
        said = (disk / "var" / "log" / "journal" / "slipway.jsonl").read_text()
        assert f"slipway: the data is on this host's disk: {len(files) - 1} files of " in said


def kept_in(bucket: Path) -> set[str]:
    """Where objects lie."""
    return {path.relative_to(bucket).parts[0] for path in bucket.rglob("*") if path.is_file()}


def resumed_losses(vcpu: Slice, saved: int) -> list[dict[int, float]]:
    """Of each host, from the checkpoint on; what was before it has from the bucket."""
    found: dict[int, dict[int, float]] = {}
    for disk in vcpu.emulator.disks():
        home = disk / "var" / "lib" / "slipway" / "host"
        assert json.loads((home / "status.json").read_text())["resumed_from"] == saved
        index = json.loads((home / "plan.json").read_text())["index"]
        every = losses(home / "runs", vcpu.run.name, index)
        assert min(every) < saved, "an earlier host's lines outlive its disk"
        # An earlier host may have recorded more steps than it could save within its notice, and more than are left.
        found[index] = {step: loss for step, loss in every.items() if saved <= step < vcpu.spec().steps}
    return [found[index] for index in sorted(found)]


def undisturbed_losses(spec: RunSpec, after: int, directory: Path) -> list[dict[int, float]]:
    """Of each host of the same run that nothing happens to, on a disk, without the steps before."""
    output = directory / "out"
    cluster = Cluster(directory, COMPILED, environ={"XLA_FLAGS": ""}, python=wheelhouses.environment().python)
    try:
        for host in cluster.run(dataclasses.replace(spec, output_directory=str(output))):
            assert host.process.returncode == 0, host.log[-3000:]
    finally:
        cluster.clean_up()
    every = [losses(output, spec.run_name, number) for number in range(spec.hosts)]
    return [{step: loss for step, loss in host.items() if step >= after} for host in every]


def goes_on(disk: Path) -> bool:
    assert "slipway: failed" not in log(disk), log(disk)
    return True


def has_finished(disk: Path) -> bool:
    return goes_on(disk) and "slipway: finished at step" in log(disk)


def finished(clone: Clone, stack: str) -> list[dict[str, Any]]:
    hosts = clone.status(stack)["hosts"]
    return hosts if all(host["phase"] == "finished" for host in hosts) else []


def log(disk: Path) -> str:
    """What its training and its boot have written."""
    files = ("var/log/journal/slipway.jsonl", "var/log/startup-script.log", "var/log/journal/system.jsonl")
    return "".join(f"{file}:\n{(disk / file).read_text()[-3000:]}\n" for file in files if (disk / file).exists())
