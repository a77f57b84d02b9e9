"""Real MaxText with its checkpoints in an emulated bucket: it resumes there, and what the bucket answers ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.object_store import StoreFaultKind
from tests.training.cluster import (
    COMPILED,
    ROOT,
    Cluster,
    LaunchedHost,
    losses,
    plain_environment,
    wait_until,
)
from tests.training.emulated_bucket import OUTPUT, EmulatedBucket
from tests.training.tiny import TINY
from training import bucket_clients, run_objects
from training.checkpoints import COMMITTED, checkpoint_directory
from training.endings import Cause
from training.exit_codes import ExitCode
from training.host_status import Phase
from training.plan import Plan
from training.run_spec import RunSpec

STEPS, SAVE_EVERY = 20, 4
FIELDS = TINY | {"checkpoint_period": SAVE_EVERY, "learning_rate_schedule_steps": 1000, "dropout_rate": 0.1}


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[EmulatedBucket]:
    with EmulatedBucket(tmp_path / "buckets") as bucket:
        yield bucket


@pytest.fixture
def cluster(tmp_path: Path, bucket: EmulatedBucket) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, COMPILED, own_environ=bucket.environ)
    yield cluster
    cluster.clean_up()


def spec_of(steps: int, output: str = OUTPUT) -> RunSpec:
    return RunSpec("test", "run", "cpu", 1, 2, 2, steps, output, None, FIELDS)


def wait_for_checkpoint(bucket: EmulatedBucket, hosts: list[LaunchedHost]) -> None:
    def there() -> bool:
        assert all(host.process.poll() is None for host in hosts), hosts[0].log[-3000:] + hosts[1].log[-3000:]
        return bucket.completed() > 0

    wait_until("the first checkpoint", there)


def wait_for_records(bucket: EmulatedBucket) -> None:
    """Of the steps of the first checkpoint, which no start does again."""

    def there(host: int) -> bool:
        return any(line["step"] >= SAVE_EVERY - 1 for line in bucket.lines_kept_of(host))

    wait_until("the records of both hosts", lambda: there(0) and there(1))


@pytest.mark.sample(0)  # a life in test_lives.py has the losses
def test_a_run_in_a_bucket_ends_by_a_refusal_and_resumes_with_the_losses_of_one_on_a_disk(
    cluster: Cluster, bucket: EmulatedBucket
) -> None:
    hosts = cluster.start(spec_of(1_000_000))
    wait_for_checkpoint(bucket, hosts)
    bucket.refuse(StoreFaultKind.DENIED, [1])
    for host in hosts:
        assert host.end() == ExitCode.FAILED, host.log[-3000:]
    saved = bucket.completed()
    bucket.heal()
    longer = saved + STEPS
    for host in cluster.run(spec_of(longer)):
        assert host.process.returncode == ExitCode.FINISHED, host.log[-3000:]
        assert (host.status.resumed_from, host.status.step) == (saved, longer)
    assert bucket.completed() == longer
    assert [bucket.lines_kept_of(host) for host in (0, 1)] == cluster.own_records(), "also what was refused at first"
    for host in cluster.run(spec_of(longer)):
        assert host.process.returncode == ExitCode.FINISHED, host.log[-3000:]
        assert str(host.status.reason).startswith(f"nothing left to train: a checkpoint holds {longer} steps")
        assert host.status.step == longer
    disk = cluster.directory / "disk"
    straight = Cluster(cluster.directory / "straight", COMPILED).run(spec_of(longer, str(disk)))
    for index, lines in enumerate(cluster.own_records()):
        assert straight[index].process.returncode == ExitCode.FINISHED
        found = {int(line["step"]): line["learning/loss"] for line in lines if line["step"] < longer}
        assert found == losses(disk, "run", index)


ANSWERS = {
    StoreFaultKind.DENIED: ("answers 403: the caller does not have storage access to ", Cause.TRAINING),
    StoreFaultKind.LOST: ("answers 404", Cause.TRAINING),
    StoreFaultKind.LIMITED: ("answers 429: The rate of requests to this bucket is too high. ", Cause.OUTSIDE),
    StoreFaultKind.UNAVAILABLE: ("answers 503: Backend unavailable, by order of the test.", Cause.OUTSIDE),
    StoreFaultKind.FULL: ("answers 507: There is no storage left for this bucket.", Cause.TRAINING),
    StoreFaultKind.HOLD: ("does not answer: ", Cause.OUTSIDE),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("whose", [(0,), (1,), (0, 1)], ids=["host 0", "host 1", "both"])
@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.name)
def test_what_a_bucket_answers_one_host_ends_both_by_its_name(
    cluster: Cluster, bucket: EmulatedBucket, kind: StoreFaultKind, whose: tuple[int, ...]
) -> None:
    """gcsfs asks six times within 35 s, so the window of a standstill is the usual one; the other limits follow it."""
    hosts = cluster.start(spec_of(1_000_000))
    wait_for_checkpoint(bucket, hosts)
    wait_for_records(bucket)
    bucket.refuse(kind, whose)
    for host in hosts:
        assert host.end() == ExitCode.FAILED, host.log[-3000:]
    answer, cause = ANSWERS[kind]
    told = [str(host.status.reason) for host in hosts]
    for index, host in enumerate(hosts):
        name = "" if index in whose and not told[index].startswith("host ") else f"host {1 - index}: "
        assert told[index].startswith((f"{name}gs://bucket {answer}", f"{name}the bucket {answer}")), host.log[-3000:]
        assert (host.status.phase, host.status.cause) == (Phase.FAILED, cause)
        assert ("; the previous checkpoint stands" in told[index]) == (kind is not StoreFaultKind.LOST)
    assert bucket.completed() > SAVE_EVERY
    for index in {0, 1} - set(whose):
        assert bucket.last_word_of(index) == hosts[index].status, "what such a host knew outlives it"
        assert bucket.lines_kept_of(index) == cluster.own_records()[index]
    for index in whose:
        assert bucket.last_word_of(index) is None
        assert f"slipway: the end of this host's record is not in {OUTPUT}/run yet: it follows" in hosts[index].log


CHECKPOINTS = checkpoint_directory(OUTPUT, "run")
SAVES = """
import sys
import numpy, orbax.checkpoint as ocp
with ocp.CheckpointManager(sys.argv[1]) as manager:
    for step in range(5, 9):
        manager.save(step, args=ocp.args.StandardSave({"weights": numpy.full(4, float(step))}))
"""
# What host 0 does at a start, and what Orbax finds then, by way of the same clients.
BEGINS = """
import sys
from pathlib import Path
import orbax.checkpoint as ocp
from etils import epath
from training.plan import load
from training.record_keeper import fetch
from training.trainer import set_spoiled_aside
plan = load(Path(sys.argv[1]))
fetch(plan, epath.Path(plan.run))
set_spoiled_aside(plan)
with ocp.CheckpointManager(plan.checkpoints) as manager:
    step = manager.latest_step()
    print("resumes", step, manager.restore(step, args=ocp.args.StandardRestore())["weights"][0])
"""


def python(bucket: EmulatedBucket, host: int, script: str, argument: str) -> subprocess.Popen[str]:
    """With the clients of a host."""
    environ = bucket.environ[host] | bucket_clients.environment(60) | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, argument]
    return subprocess.Popen(command, cwd=ROOT, env=plain_environment() | environ, stdout=subprocess.PIPE, text=True)


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """To its end, which is a good one."""
    said, _ = process.communicate()
    assert process.returncode == 0
    return said.splitlines()


def spoiled_from_seven(record: Path) -> Path:
    """The plan of a run whose record says so."""
    losses = {6: 5.0, 7: 5.0, 8: 5.0}
    lines = [{"step": step, "learning/loss": loss, "learning/param_norm": 30.0} for step, loss in losses.items()]
    lines[1]["learning/param_norm"] = float("inf")
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    numbers = (30, 600, 60, 0, 0.0)
    plan = Plan(0, 1, "h:1", 1, 1, 9, 64, CHECKPOINTS, "", str(record), *numbers, "", {}, None, f"{OUTPUT}/run")
    return plan.save(record.parent)


def objects(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


# Which calls move an object, and whether the account has the right to `moveTo`, without which it is copied and removed.
MOVES = {"moved": ("POST", "/moveTo/", True), "copied": ("DELETE", "checkpoints%2F8%2F", False)}


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", MOVES)
def test_what_a_kill_leaves_of_setting_checkpoints_aside_is_not_resumed_and_the_next_start_finishes_it(
    bucket: EmulatedBucket, tmp_path: Path, how: str
) -> None:
    """A bucket renames no folder: each object is one call, or two, and those of a checkpoint are sent at once.

    The next start is on a new disk, and knows of the bad step from the bucket.
    """
    assert said_by(python(bucket, 0, SAVES, CHECKPOINTS)) == []
    whole = objects(bucket.checkpoints / "8")
    record = tmp_path / "host-0.jsonl"
    plan = spoiled_from_seven(record)
    method, call, may_move = MOVES[how]
    held = bucket.servers[0].fail(StoreFaultKind.HOLD, method, call, skip=6, times=10**9)
    for server in bucket.servers if not may_move else ():
        server.fail(StoreFaultKind.DENIED, "POST", "/moveTo/", times=10**9)
    with python(bucket, 0, BEGINS, str(plan)) as killed:
        wait_until("a call that waits", lambda: held.held.is_set() or killed.poll() is not None)
        killed.kill()
    aside = bucket.checkpoints.parent / "set-aside"
    left, gone = objects(bucket.checkpoints / "8"), objects(aside / "8")
    assert left and gone and left | gone == whole - {COMMITTED}, "a half each, and none has the mark"
    assert bucket.completed() == 8, "the next restore, of a host that knows nothing of a bad step, is of 7, not of 8"
    chunks = bucket.run / run_objects.chunks_of(0)
    chunks.mkdir(parents=True)
    record.rename(chunks / run_objects.chunk_name(0.0, 0, 6, 8))
    again = python(bucket, 1, BEGINS, str(plan))  # at a server of its own, whose calls nobody holds
    assert said_by(again) == [
        f"slipway: this host's record is not on its disk: 3 lines of it are from {OUTPUT}/run/metrics/host-0",
        "slipway: the parameter norm of step 7 is inf (the loss was usually 5): "
        f"set aside checkpoint 7, 8 ({OUTPUT}/run/set-aside)",
        "resumes 6 6.0",
    ]
    assert sorted(path.name for path in bucket.checkpoints.iterdir() if objects(path)) == ["5", "6"]
    assert COMMITTED in objects(aside / "7") and len(objects(aside / "7")) == len(whole)
    assert objects(aside / "8") | objects(aside / "8.1") == whole - {COMMITTED}
    assert (aside / "8.1.txt").read_text() == (aside / "7.txt").read_text()
