"""What calls of the emulated Vertex AI answer: fields, lists, filters, pages, deletes."""

from __future__ import annotations

import pytest

from infra.emulators.vertex_jobs import VertexApi
from tests.unit.vertex_jobs.caller import NUMBERED, PARENT, UNTIL_RUNNING_S, Caller, CallError, wanted


def test_a_new_job_is_queued_and_has_what_was_asked_for(caller: Caller) -> None:
    asked = wanted("my job", labels={"run": "a-b_1"}, scheduling={"timeout": "3600s", "strategy": "SPOT"})
    job = caller.call("POST", f"{PARENT}/customJobs", asked)
    assert job["name"].startswith(f"{NUMBERED}/customJobs/")
    assert (job["state"], job["createTime"]) == ("JOB_STATE_QUEUED", "2027-01-15T08:00:00Z")
    assert {key: job[key] for key in asked} == asked
    assert caller.get(job["name"]) == job
    assert caller.get(job["name"].replace(NUMBERED, PARENT)) == job
    assert "startTime" not in job


def test_what_only_the_service_sets_is_ignored(caller: Caller) -> None:
    job = caller.call("POST", f"{PARENT}/customJobs", wanted() | {"name": "mine", "state": "JOB_STATE_SUCCEEDED"})
    assert (job["name"] != "mine", job["state"]) == (True, "JOB_STATE_QUEUED")


def test_two_equal_creates_are_two_jobs(caller: Caller) -> None:
    """The API takes no id and no request id: whoever loses the answer of one must look before the next."""
    assert caller.create()["name"] != caller.create()["name"]
    assert caller.titles() == ["j", "j"]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ('labels.run="a"', ["x1"]),
        ("labels.run:*", ["x2", "x1"]),
        ('labels.run:* AND NOT display_name="x2"', ["x1"]),
        ('display_name="x1" OR display_name="y"', ["y", "x1"]),
        ('display_name="x1" OR display_name="y" AND state="JOB_STATE_RUNNING"', []),  # OR binds closer
        ('display_name:"x*"', ["x2", "x1"]),
        ('state="JOB_STATE_RUNNING"', []),
        ('state!="JOB_STATE_RUNNING" display_name="y"', ["y"]),
        ('create_time>"2027-01-15T08:00:10Z"', ["y"]),
        ('(labels.run="a" OR labels.run="b") AND display_name!="x1"', ["x2"]),
        ("", ["y", "x2", "x1"]),
    ],
)
def test_lists_are_filtered_newest_first(api: VertexApi, caller: Caller, text: str, titles: list[str]) -> None:
    caller.create(title="x1", labels={"run": "a"})
    api.advance(1)
    caller.create(title="x2", labels={"run": "b"})
    api.advance(20)
    caller.create(title="y")
    assert caller.titles(filter=text) == titles


@pytest.mark.parametrize("text", ["bogus", 'job="x"', 'labels.run>"a"', '(state="x"', 'create_time>"today"', '"'])
def test_a_filter_that_is_none_is_refused(caller: Caller, text: str) -> None:
    with pytest.raises(CallError, match="400 INVALID_ARGUMENT: Invalid filter"):
        caller.titles(filter=text)


def test_pages_have_no_gaps_when_jobs_come_and_go(api: VertexApi, caller: Caller) -> None:
    names: list[str] = []
    for number in range(5):
        names.append(caller.create(title=f"j{number}")["name"])
        api.advance(1)
    first = caller.call("GET", f"{PARENT}/customJobs", pageSize="2")
    caller.cancel(names[3])
    api.advance(20)
    caller.delete(names[3])
    api.advance(5)
    caller.create(title="new")
    second = caller.call("GET", f"{PARENT}/customJobs", pageSize="2", pageToken=first["nextPageToken"])
    last = caller.call("GET", f"{PARENT}/customJobs", pageSize="2", pageToken=second["nextPageToken"])
    pages = [[job["displayName"] for job in page["customJobs"]] for page in (first, second, last)]
    assert (pages, "nextPageToken" in last) == ([["j4", "j3"], ["j2", "j1"], ["j0"]], False)
    with pytest.raises(CallError, match="is not a token of this service"):
        caller.titles(pageToken="x")


def test_a_mask_leaves_the_rest_out_and_regions_are_apart(api: VertexApi, caller: Caller) -> None:
    job = caller.create()
    listed = caller.call("GET", f"{PARENT}/customJobs", readMask="name,state")
    assert listed == {"customJobs": [{"name": job["name"], "state": "JOB_STATE_QUEUED"}]}
    assert caller.call("GET", "projects/p/locations/us-east4/customJobs") == {}
    assert caller.call("GET", "projects/q/locations/us-central1/customJobs") == {}


def test_only_a_job_that_has_ended_is_deleted(api: VertexApi, caller: Caller) -> None:
    name = caller.running()
    with pytest.raises(CallError, match=r"400 FAILED_PRECONDITION.*JOB_STATE_RUNNING and cannot be deleted"):
        caller.delete(name)
    caller.cancel(name)
    with pytest.raises(CallError, match="JOB_STATE_CANCELLING and cannot be deleted"):
        caller.delete(name)
    api.advance(20)
    operation = caller.delete(name)
    assert ("done" in operation, caller.state(name)) == (False, "CANCELLED")
    api.advance(2)
    done = caller.get(operation["name"])
    assert (done["done"], done["response"]["@type"]) == (True, "type.googleapis.com/google.protobuf.Empty")
    with pytest.raises(CallError, match="404 NOT_FOUND"):
        caller.get(name)


def test_a_job_may_be_missing_from_lists_at_first(api: VertexApi, caller: Caller) -> None:
    api.cloud.behaviour = type(api.cloud.behaviour)(listed_after_s=5)
    name = caller.create()["name"]
    assert (caller.titles(), caller.state(name)) == ([], "QUEUED")
    api.advance(UNTIL_RUNNING_S)
    assert caller.titles() == ["j"]


def test_what_the_emulator_does_not_know_is_an_error(caller: Caller) -> None:
    for method, path in (("PATCH", f"{PARENT}/customJobs/1"), ("GET", f"{PARENT}/trainingPipelines")):
        with pytest.raises(CallError, match="does not know"):
            caller.call(method, path)
    with pytest.raises(CallError, match='Unknown name "pagesize": Cannot bind query parameter'):
        caller.titles(pagesize="2")
    with pytest.raises(CallError, match="403 PERMISSION_DENIED: Permission denied on 'locations/mars-1'"):
        caller.call("GET", "projects/p/locations/mars-1/customJobs")
