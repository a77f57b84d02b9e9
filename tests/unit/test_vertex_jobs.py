"""What the provider does with a custom job where nothing or one thing goes wrong: progress, states, regions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra import emulated
from infra.emulators.call_faults import FaultKind
from infra.emulators.vertex_jobs import JobCloud, JobTimings, MachineLimit, VertexApi
from infra.emulators.vertex_jobs.job_records import Region
from infra.emulators.vertex_jobs.replicas import PretendedReplicas
from infra.providers.resource import OnChange, ResourceError
from infra.targets.errors import TargetError
from infra.targets.vertex import orphans
from infra.targets.vertex.provider import vertex_cleanup
from infra.targets.vertex.provider.vertex_job_resource import VertexJobResource
from tests.unit.vertex_stack import MACHINE, REGIONS, VertexStack, jobs_in, wanted

TIMINGS = JobTimings(queue_s=5, provision_s=60, stockout_s=60, cancel_s=10, delete_s=2)
QUOTA = "custom_model_training_nvidia_h100_mega_gpus"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexApi]:
    with VertexApi(JobCloud(TIMINGS)) as api:
        monkeypatch.setenv(emulated.VERTEX, api.url)
        monkeypatch.setenv(vertex_cleanup.APPEARS, "20")
        yield api


@pytest.fixture
def stack(api: VertexApi) -> VertexStack:
    return VertexStack(wanted(), api.advance)


def ends(api: VertexApi, code: int) -> None:
    """The master of the one job exits."""
    (job,) = api.cloud.jobs.values()
    assert isinstance(api.cloud.replicas, PretendedReplicas)
    api.cloud.replicas.set_exit(job, "workerpool0-0", code)
    api.advance(60)


def test_up_waits_until_it_runs_and_says_why_it_waits(api: VertexApi, stack: VertexStack) -> None:
    stack.up()
    assert list(jobs_in(api.cloud).values()) == ["RUNNING"]
    assert any("QUEUED, waited 0s; in the queue" in line for line in stack.lines)
    assert any("PENDING, waited" in line and "pulls the image" in line for line in stack.lines)
    assert (stack.outputs["region"], stack.outputs["state"]) == ("us-central1", "RUNNING")
    assert stack.changes() == []
    calls = len(api.calls_of("CreateCustomJob"))
    stack.up()
    assert len(api.calls_of("CreateCustomJob")) == calls == 1
    stack.destroy()
    assert jobs_in(api.cloud) == {}
    assert len(api.calls_of("CancelCustomJob")) == 1, "what runs is cancelled before it is deleted"


def test_up_need_not_wait(api: VertexApi, stack: VertexStack) -> None:
    stack.job = wanted(wait=False)
    stack.up()
    assert list(jobs_in(api.cloud).values()) == ["QUEUED"]
    assert stack.changes() == []
    stack.job = wanted()
    stack.state["job"]["outputs"]["wait"] = True
    assert stack.changes() == ["job"], "to wait where nobody has waited before is something to do"


def test_a_wait_that_ends_loses_nothing(api: VertexApi, stack: VertexStack) -> None:
    stack.job = wanted(wait_deadline_s=10)
    with pytest.raises(ResourceError, match=r"is PENDING after 10s \(wait_deadline\): machines are looked for"):
        stack.up()
    stack.job = wanted()
    stack.up()
    assert list(jobs_in(api.cloud).values()) == ["RUNNING"] and len(api.calls_of("CreateCustomJob")) == 1


@pytest.mark.parametrize("lacks", ["stock", "quota", "machine", "closed"])
def test_the_next_region_is_asked_where_one_cannot_serve(api: VertexApi, stack: VertexStack, lacks: str) -> None:
    match lacks:
        case "stock":
            api.cloud.stock.machines[MachineLimit(REGIONS[0], MACHINE)] = 0
        case "quota":
            api.cloud.stock.quotas[Region.of(f"projects/p/locations/{REGIONS[0]}"), QUOTA] = 8
        case "machine":
            stack.job = wanted(regions=["us-west2", REGIONS[1]])
        case _:
            api.job_calls.closed_regions.add(REGIONS[0])
    stack.up()
    assert stack.outputs["region"] == REGIONS[1]
    assert list(jobs_in(api.cloud).values()) == ["RUNNING"], "what the first has left is gone"


def test_no_region_serves_it(api: VertexApi, stack: VertexStack) -> None:
    for region in REGIONS:
        api.cloud.stock.machines[MachineLimit(region, MACHINE)] = 0
    with pytest.raises(ResourceError, match=r"no region serves it: .*us-central1 is FAILED: no machines.*us-east4 is"):
        stack.up()
    assert jobs_in(api.cloud) == {}


def test_what_is_done_is_not_made_again(api: VertexApi, stack: VertexStack) -> None:
    stack.up()
    ends(api, 0)
    assert stack.changes() == []
    assert stack.outputs["state"] == "SUCCEEDED"
    api.cloud.jobs.clear()  # somebody tidies up
    assert stack.changes() == []
    stack.up()
    assert jobs_in(api.cloud) == {}
    stack.job = wanted(environment={"SLIPWAY_BUNDLE": "b" * 16})
    stack.up()
    assert list(jobs_in(api.cloud).values()) == ["RUNNING"], "another run is another job"


def test_what_has_failed_is_said_and_made_again(api: VertexApi, stack: VertexStack) -> None:
    stack.up()
    ends(api, 1)
    assert stack.changes() == ["job"]
    assert "exited with a non-zero status of 1" in stack.outputs["reason"]
    first = stack.outputs["name"]
    stack.up()
    assert stack.outputs["name"] != first and list(jobs_in(api.cloud).values()) == ["RUNNING"]
    assert any("is FAILED (The replica workerpool0-0 exited" in line for line in stack.lines)


def test_a_second_job_of_the_state_is_ended_when_it_is_seen(api: VertexApi, stack: VertexStack) -> None:
    stack.up()
    (first,) = api.cloud.jobs.values()
    other = VertexStack(wanted(), api.advance, state={"guard": stack.state["guard"]})
    first.message.labels["slipway-stack"] = "hidden"  # as if it were not listed yet
    other.up()
    first.message.labels["slipway-stack"] = "s"
    assert stack.changes() == ["job"]
    stack.up()
    assert list(jobs_in(api.cloud)) == [first.name] and stack.changes() == []


def test_another_clones_job_is_refused_with_what_to_do(api: VertexApi, stack: VertexStack) -> None:
    VertexStack(wanted(), api.advance).up()
    there = jobs_in(api.cloud)
    with pytest.raises(ResourceError) as refused:
        stack.up()
    for part in ("q-s in us-central1 is RUNNING", "by alice from another clone", "gcloud ai custom-jobs cancel "):
        assert part in str(refused.value)
    stack.destroy()
    assert jobs_in(api.cloud) == there


def test_who_may_not_act_as_the_account_is_told_the_role(api: VertexApi, stack: VertexStack) -> None:
    api.job_calls.refused_accounts.add(wanted().service_account)
    with pytest.raises(ResourceError, match=r"roles/iam\.serviceAccountUser"):
        stack.up()
    assert "job" not in stack.state


def test_a_refusal_leaves_nothing_in_the_state(api: VertexApi, stack: VertexStack) -> None:
    api.fail(FaultKind.DENIED, "CreateCustomJob")
    with pytest.raises(ResourceError, match=r"roles/aiplatform\.user"):
        stack.up()
    assert list(stack.state) == ["guard"]


def test_regions_replace_nothing_while_its_own_is_among_them() -> None:
    old, new = vars(wanted()), vars(wanted(regions=REGIONS[::-1]))
    resource = VertexJobResource()
    assert resource.changes(old, new, {"region": REGIONS[0]}) == {"regions": OnChange.UPDATE}
    gone = vars(wanted(regions=REGIONS[1:]))
    assert resource.changes(old, gone, {"region": REGIONS[0]}) == {"regions": OnChange.REPLACE}
    assert resource.changes(old, vars(wanted(image="i")), {}) == {"image": OnChange.REPLACE}
    assert resource.reasons(["image"]) == ["image replaces: its containers start with it"]


def test_orphans_are_what_has_not_ended(api: VertexApi, stack: VertexStack) -> None:
    stack.up()
    api.speed = 1000  # commands wait in real time
    (found,) = orphans.billed("p", print)
    assert (found.stack, found.state, found.bundle, found.owner) == ("s", "RUNNING", "a" * 16, "alice")
    assert orphans.remove([found.name], print) == [found.name]
    assert jobs_in(api.cloud) == {}
    api.fail(FaultKind.DENIED, "ListCustomJobs", times=100)
    with pytest.raises(TargetError, match=r"roles/aiplatform\.user"):
        orphans.billed("p", print)


def test_another_emulated_cloud_has_none(api: VertexApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(emulated.VERTEX)
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:1")
    assert orphans.billed("p", print) == ()
