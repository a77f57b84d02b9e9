"""Real MaxText with its checkpoints in an emulated bucket: it resumes there, and what the bucket answers ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.object_store import StoreFaultKind
from tests.training.cluster import COMPILED, Cluster, LaunchedHost, losses, wait_until
from tests.training.emulated_bucket import OUTPUT, EmulatedBucket
from tests.training.tiny import TINY
from training.endings import Cause
from training.exit_codes import ExitCode
from training.host_status import Phase
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
