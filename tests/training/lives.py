"""Lives of a training that comes to harm several times and has to end with the losses of one that did not.

`make soak N=40 SEED=1` lives N of them: two hosts, real MaxText, on small file systems in user and mount namespaces. In
half of them each host is a slice, in the others both are one; a quarter have their checkpoints in an emulated bucket.
What comes when is drawn by seed and number, so that a life can be lived again alone; lives that are done are in a file
and are not lived again. The last line says how many were bit-equal. `make test` has a few short ones: fewer steps and
harms, else the same.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.emulators.object_store import StoreFaultKind
from tests.training.cluster import COMPILED, PATIENCE_S, Cluster, LaunchedHost, record, wait_until
from tests.training.emulated_bucket import OUTPUT, EmulatedBucket
from tests.training.patched_maxtext import patch_into
from tests.training.tiny import TINY, prepared_text
from training.checkpoints import COMMITTED
from training.data.identity import read_manifest
from training.exit_codes import ExitCode
from training.run_spec import DataSpec, MaxTextValue, RunSpec

HOSTS = 2
STANDSTILL_S = 10
_UNFINISHED = "orbax-checkpoint-tmp"  # in the name of what a save has not finished


@dataclass(frozen=True)
class Length:
    """How long a life is and how often it saves and, at most, comes to harm; whether it starts once more at its end."""

    steps: int
    save_every: int
    most_harms: int
    started_at_its_end: bool

    @property
    def fields(self) -> dict[str, MaxTextValue]:
        own = {"checkpoint_period": self.save_every, "eval_interval": 2 * self.save_every}
        return TINY | {"dropout_rate": 0.1, "learning_rate_schedule_steps": 1000} | own


LONG, SHORT = Length(60, 7, 3, True), Length(32, 8, 2, False)


@dataclass(frozen=True)
class Trial:
    """One life's hosts and disk while they run. `victim` is the host that comes to harm, where it is one.

    `bucket`, where the checkpoints are in one, has its objects on the disk.
    """

    cluster: Cluster
    spec: RunSpec
    hosts: list[LaunchedHost]
    victim: int
    disk: Path
    bucket: EmulatedBucket | None
    not_compared: list[list[int]]  # of each host: lines of its record

    def records(self) -> list[list[dict[str, Any]]]:
        """Of each host, over all starts."""
        return self.cluster.own_records() if self.bucket else [record(self.disk, "run", host) for host in range(HOSTS)]

    def saves(self) -> bool:
        """Whether a checkpoint is not finished."""
        directory = self.bucket.checkpoints if self.bucket else self.disk / "run" / "checkpoints"
        entries = list(directory.iterdir()) if directory.is_dir() else []
        if self.bucket:
            return any(entry.name.isdecimal() and not (entry / COMMITTED).exists() for entry in entries)
        return any(_UNFINISHED in entry.name for entry in entries)

    def end(self) -> None:
        """Until all have ended, in whatever way."""
        for host in self.hosts:
            host.end()


def kill_host(trial: Trial) -> None:
    trial.hosts[trial.victim].kill_group()


def kill_training(trial: Trial) -> None:
    os.kill(trial.hosts[trial.victim].trainer, signal.SIGKILL)


def kill_all(trial: Trial) -> None:
    for host in trial.hosts:
        host.kill_group()


def terminate(trial: Trial) -> None:
    trial.hosts[trial.victim].process.send_signal(signal.SIGTERM)


def freeze(trial: Trial) -> None:
    """Until the others have ended by it."""
    victim = trial.hosts[trial.victim]
    os.killpg(victim.process.pid, signal.SIGSTOP)
    try:
        for host in trial.hosts:
            if host is not victim:
                host.end()
    finally:
        os.killpg(victim.process.pid, signal.SIGCONT)


def tear(trial: Trial) -> None:
    """Killed in the middle of a save: the machine's, or one host's."""
    wait_until("a save", trial.saves)
    (kill_all if trial.victim == 0 else kill_host)(trial)


def fill_disk(trial: Trial) -> None:
    ballast = trial.disk / "ballast"
    try:
        with ballast.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
    except OSError:
        trial.end()
    ballast.unlink()


def spoil_disk(trial: Trial) -> None:
    """As a kernel does that has met an error of the disk."""
    subprocess.run(["mount", "-o", "remount,ro", str(trial.disk)], check=True)
    trial.end()
    subprocess.run(["mount", "-o", "remount,rw", str(trial.disk)], check=True)


def lose_bucket(trial: Trial) -> None:
    """The victim's account loses sight of it."""
    assert trial.bucket
    trial.bucket.refuse(StoreFaultKind.LOST, [trial.victim])
    trial.end()
    trial.bucket.heal()


def spoil_numbers(trial: Trial) -> None:
    """All are stopped, and started with a learning rate after whose first step, if one is left, no parameter is one."""
    terminate(trial)
    trial.end()
    before = [len(lines) for lines in trial.records()]
    rates: dict[str, MaxTextValue] = {"learning_rate": 1e30, "warmup_steps_fraction": 0.0}
    spoiling = dataclasses.replace(trial.spec, maxtext={**trial.spec.maxtext, **rates})
    for host in trial.cluster.run(spoiling):
        assert host.process.returncode in (ExitCode.REPEATED, ExitCode.FINISHED), host.log[-4000:]
    for lines, first, not_compared in zip(trial.records(), before, trial.not_compared, strict=True):
        not_compared += range(first, len(lines))


HARMS: tuple[Callable[[Trial], None], ...] = (
    kill_host, kill_training, kill_all, terminate, freeze, tear, fill_disk, spoil_disk, spoil_numbers,
)  # fmt: skip
_OF_A_DISK = (fill_disk, spoil_disk)  # a life in a bucket loses that instead
_SHARE_IN_BUCKETS = 0.25


@dataclass(frozen=True)
class Lives:
    """`directory` keeps the data and the lives without harm; disks are mounted in it."""

    directory: Path
    seed: int
    length: Length = LONG

    def prepare(self) -> None:
        """What all lives share, once."""
        if not (self.directory / "prepared").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            (self.directory / "patched").mkdir(parents=True)
            prepared_text(self.directory, self.directory / "data")
            patch_into(self.directory / "patched")
            (self.directory / "prepared").touch()

    def live(self, number: int) -> str:
        """Empty, or what differs."""
        dice = random.Random(f"{self.seed} {number}")
        steps = sorted(dice.sample(range(2, self.length.steps - 5), dice.randint(1, self.length.most_harms)))
        harms = [(dice.choice(HARMS), dice.randrange(HOSTS)) for _ in steps]
        slices, in_bucket = dice.choice((1, HOSTS)), dice.random() < _SHARE_IN_BUCKETS
        expected = self._without_harm(slices)
        name = f"life {number}"
        disk = self._disk(name)
        bucket = EmulatedBucket(disk, HOSTS) if in_bucket else None
        cluster = self._cluster(name, STANDSTILL_S)
        cluster.own_environ = bucket.environ if bucket else ()
        spec = self._spec(slices, OUTPUT if bucket else str(disk))
        told = [f"{slices} slices"] * (slices > 1) + ["in a bucket"] * in_bucket
        began = time.monotonic()
        trial = Trial(cluster, spec, [], 0, disk, bucket, [[] for _ in range(HOSTS)])
        try:
            with bucket or contextlib.nullcontext():
                for step, (harm, victim) in zip(steps, harms, strict=True):
                    harm = lose_bucket if bucket and harm in _OF_A_DISK else harm
                    trial = dataclasses.replace(trial, hosts=cluster.start(spec), victim=victim)
                    _wait_for_step(trial.hosts, step)
                    harm(trial)
                    trial.end()
                    told.append(f"{harm.__name__} of host {victim} at step {step}{_last_words(trial.hosts)}")
                for host in cluster.run(spec):
                    assert host.process.returncode == ExitCode.FINISHED, host.log[-4000:]
                for host in cluster.run(spec) if self.length.started_at_its_end else ():
                    assert str(host.status.reason).startswith("nothing left to train"), host.log[-4000:]
            found = _differences(expected, _curves(trial.records(), trial.not_compared), self.length.steps - 1)
            found = found or _not_kept(trial)
        finally:
            cluster.clean_up()
            self._unmount(disk)
        said = f"life {number}: {', '.join(told)}; {time.monotonic() - began:.0f} s; {found or 'bit-equal'}"
        print(said, flush=True)
        if not found:
            shutil.rmtree(self.directory / name)
        return found

    def _without_harm(self, slices: int) -> list[list[tuple[str, int, float]]]:
        """The curves of such a life, which is lived once."""
        name = f"reference of {slices}"
        file = self.directory / f"{name}.json"
        if not file.exists():
            disk = self._disk(name)
            for host in self._cluster(name, 60).run(self._spec(slices, str(disk))):
                assert host.process.returncode == 0, host.log[-4000:]
            records = [record(disk, "run", host) for host in range(HOSTS)]
            file.write_text(json.dumps(_curves(records, [[] for _ in records])))
            self._unmount(disk)
        return json.loads(file.read_text())

    def _cluster(self, name: str, standstill_s: int) -> Cluster:
        patched = {"PYTHONPATH": str(self.directory / "patched")}  # slices of CPU devices are a patch of ours
        return Cluster(self.directory / name, COMPILED, standstill_s=standstill_s, environ=patched)

    def _spec(self, slices: int, output: str) -> RunSpec:
        data = self.directory / "data"
        content = DataSpec(str(data), read_manifest(data).content, 2)
        return RunSpec(
            "soak", "run", "cpu", slices, HOSTS // slices, 2, self.length.steps, output, content, self.length.fields
        )

    def _disk(self, name: str) -> Path:
        disk = self.directory / f"{name} disk"
        disk.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "none", str(disk)], check=True)
        return disk

    def _unmount(self, disk: Path) -> None:
        subprocess.run(["umount", "-l", str(disk)], check=True)
        disk.rmdir()


def _wait_for_step(hosts: list[LaunchedHost], step: int) -> None:
    """Until all are there, or have ended: a life that resumes beyond the step meets its harm at once."""

    def there(host: LaunchedHost) -> bool:
        status = host.status if host.phase else None
        return host.process.poll() is not None or bool(status and status.first_step_at and status.step >= step)

    wait_until(f"step {step}", lambda: all(there(host) for host in hosts), PATIENCE_S)


def _last_words(hosts: list[LaunchedHost]) -> str:
    """Of those that have had one, why they ended."""
    ended = [(index, host.status) for index, host in enumerate(hosts) if host.phase and host.phase.final]
    return "".join(f" ({index} {status.phase}: {status.reason})" for index, status in ended)


_CURVES = {"learning/loss": "loss", "eval/avg_loss": "held-out loss"}


def _curves(
    records: Sequence[Sequence[dict[str, Any]]], not_compared: Sequence[Sequence[int]]
) -> list[list[tuple[str, int, float]]]:
    """What was recorded of each host, steps that were done twice included: curve, step, value."""
    return [
        [
            (curve, int(line["step"]), line[key])
            for number, line in enumerate(lines)
            for key, curve in _CURVES.items()
            if key in line and number not in left_out
        ]
        for lines, left_out in zip(records, not_compared, strict=True)
    ]


def _differences(
    reference: list[list[tuple[str, int, float]]], found: list[list[tuple[str, int, float]]], last: int
) -> str:
    """A step at which a host was stopped or killed may be missing, the last one may not."""
    wrong: list[str] = []
    for host, (expected, got) in enumerate(zip(reference, found, strict=True)):
        values = {(curve, step): value for curve, step, value in expected}
        missing = {(curve, last) for curve in _CURVES.values()} - {(curve, step) for curve, step, _ in got}
        wrong += [f"host {host} has no {curve} of step {step}" for curve, step in sorted(missing)]
        wrong += [
            f"host {host}: {curve} of step {step} is {value}, not {values.get((curve, step))}"
            for curve, step, value in got
            if values.get((curve, step)) != value
        ]
    return "; ".join(wrong[:3])


def _not_kept(trial: Trial) -> str:
    """Of the steps that were recorded, those that are not in the bucket as they were done last."""
    if not trial.bucket:
        return ""
    kept = [{line["step"]: line for line in trial.bucket.lines_kept_of(host)} for host in range(HOSTS)]
    recorded = [{line["step"]: line for line in lines} for lines in trial.records()]
    wrong = [
        f"host {host}: step {step:.0f} is not kept"
        for host in range(HOSTS)
        for step, line in recorded[host].items()
        if json.dumps(kept[host].get(step)) != json.dumps(line)  # a number that is none is equal to nothing
    ]
    return "; ".join(wrong[:3])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.training.lives", description="Lives of a training that comes to harm.")
    parser.add_argument("lives", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first life")
    parser.add_argument("--directory", type=Path, required=True, help="kept between calls; made where it is missing")
    parser.add_argument("--short", action="store_true", help="shorter lives; not in a directory of long ones")
    options = parser.parse_args(arguments)
    lives = Lives(options.directory.absolute(), options.seed, SHORT if options.short else LONG)
    lives.prepare()
    done = lives.directory / f"seed-{options.seed}.json"
    results: dict[str, str] = json.loads(done.read_text()) if done.exists() else {}
    numbers = range(options.first, options.first + options.lives)
    for number in numbers:
        if results.get(str(number)) != "":
            results[str(number)] = lives.live(number)
            done.write_text(json.dumps(results))
    equal = sum(not results[str(number)] for number in numbers)
    print(f"{equal} of {options.lives} bit-equal")
    return 0 if equal == options.lives else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
