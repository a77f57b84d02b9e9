"""What day 2 tells of a custom job, and does with it: why it waits, how far it is, its logs, stop and start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra import emulated
from infra.emulators.object_store import ObjectStore
from infra.emulators.vertex_jobs import JobCloud, JobTimings, MachineLimit, VertexApi
from infra.emulators.vertex_jobs.replicas import PretendedReplicas
from infra.operate.stack_status import cells, status_of
from infra.runs import run_plan
from infra.stack_file.settings import from_file
from infra.targets.vertex import plan
from infra.targets.vertex.hosts import VertexHosts
from infra.targets.vertex.provider import vertex_cleanup
from infra.targets.vertex.settings import VertexSettings
from tests.unit.test_run_history import LeftBehind
from tests.unit.vertex_stack import MACHINE, VertexStack, jobs_in

STACK = "vertex-a3-mega-2"
TIMINGS = JobTimings(queue_s=5, provision_s=60, stockout_s=600, cancel_s=0, delete_s=0)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[VertexApi]:
    settings = from_file(STACK)
    assert isinstance(settings, VertexSettings)
    with VertexApi(JobCloud(TIMINGS)) as api, ObjectStore(tmp_path, (settings.names.checkpoints_bucket,)) as store:
        monkeypatch.setenv(emulated.VERTEX, api.url)
        monkeypatch.setenv(emulated.STORAGE, store.url)
        monkeypatch.setenv(vertex_cleanup.APPEARS, "1")
        yield api


@pytest.fixture
def stack(api: VertexApi) -> VertexStack:
    settings = from_file(STACK)
    assert isinstance(settings, VertexSettings)
    return VertexStack(plan.job_inputs(settings, "a" * 16, "true"), api.advance)


@pytest.fixture
def hosts() -> VertexHosts:
    """Which asks at each look."""
    ticks = iter(range(0, 10**6, 60))
    return VertexHosts(STACK, lambda: float(next(ticks)))


def test_without_a_job_it_is_absent(api: VertexApi, hosts: VertexHosts) -> None:
    assert status_of(hosts).phase == "absent"


def test_why_it_waits(api: VertexApi, stack: VertexStack, hosts: VertexHosts) -> None:
    api.cloud.stock.machines[MachineLimit("us-central1", MACHINE)] = 0
    stack.job = replace(stack.job, wait=False)
    stack.up()
    assert {(host.phase, host.reason.partition(":")[0]) for host in hosts.states()} == {("booting", "in the queue")}
    api.advance(30)
    (reason,) = {host.reason for host in hosts.states()}
    assert "machines are looked for" in reason
    assert reason.endswith("the service says: Waiting for job to be provisioned.")
    api.advance(3000)
    (reason,) = {host.reason for host in hosts.states()}
    assert reason.startswith("no machines: Resources are insufficient in region: us-central1")
    assert status_of(hosts).phase == "failed"


def test_how_far_it_is(api: VertexApi, stack: VertexStack, hosts: VertexHosts, tmp_path: Path) -> None:
    stack.up()
    assert [(host.index, host.phase) for host in hosts.states()] == [(0, "booting"), (1, "booting")]
    spec = run_plan.of_stack(from_file(STACK))
    left, started = LeftBehind(tmp_path, spec), time.time() + 120
    left.start(0, started)
    assert hosts.states()[0].phase == "starting"
    lines = [
        {
            "step": float(step),
            "learning/loss": 9.0 - step,
            "slipway/step_s": 2.0,
            "perf/per_device_tflops": 800.0,
        }
        for step in range(9)
    ]
    left.chunk(0, started, 0, *lines)
    status = status_of(hosts)
    (host, other) = status.hosts
    assert (host.phase, host.step, host.loss, other.phase) == ("training", 9, 1.0, "booting")
    assert host.tokens_per_s == spec.tokens_per_step / 2
    assert "400 TFLOP/s a device, MFU 40.4%" in " ".join(cells(host))


def test_logs_are_the_replicas_own(api: VertexApi, stack: VertexStack, hosts: VertexHosts) -> None:
    stack.up()
    (job,) = api.cloud.jobs.values()
    for number in range(3):
        api.cloud.log.say(job, "workerpool1-0", "INFO", f"line {number}", api.cloud.now_s + number)
    assert list(hosts.logs(1, follow=False)) == ["line 0", "line 1", "line 2"]
    assert list(hosts.logs(0, follow=False)) == []
    with pytest.raises(LookupError, match="has hosts 0 to 1"):
        list(hosts.logs(2, follow=False))


def test_stop_cancels_and_start_makes_one_like_it(api: VertexApi, stack: VertexStack, hosts: VertexHosts) -> None:
    stack.up()
    api.speed = 1000  # commands wait in real time
    said: list[str] = []
    hosts.stop(said.append)
    assert {host.phase for host in hosts.states()} == {"interrupted"}
    hosts.start()
    hosts.start()  # it is there already
    assert sorted(state == "CANCELLED" for state in jobs_in(api.cloud).values()) == [False, True]
    api.speed = 0
    api.advance(100)
    assert stack.changes() == [], "`up` takes it as its own"
    stack.up()
    stack.destroy()
    assert jobs_in(api.cloud) == {}, "and `destroy` deletes both"


def test_a_job_that_ended_by_itself(api: VertexApi, stack: VertexStack, hosts: VertexHosts) -> None:
    stack.up()
    (job,) = api.cloud.jobs.values()
    assert isinstance(api.cloud.replicas, PretendedReplicas)
    api.cloud.replicas.set_exit(job, "workerpool0-0", 0)
    api.advance(10)
    assert status_of(hosts).phase == "finished"


def test_a_bucket_that_cannot_be_read_hides_no_job(
    api: VertexApi, stack: VertexStack, hosts: VertexHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.up()
    monkeypatch.setenv(emulated.STORAGE, "http://127.0.0.1:1")
    assert "how far it is cannot be read: " in hosts.states()[0].reason
