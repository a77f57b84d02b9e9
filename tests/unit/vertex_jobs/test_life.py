"""What becomes of jobs of the emulated Vertex AI: machines, quota, ends, cancels, restarts, time."""

from __future__ import annotations

import dataclasses

import pytest

from infra.emulators.vertex_jobs import JobState, VertexApi
from tests.unit.vertex_jobs.caller import H100_QUOTA, REGION, UNTIL_RUNNING_S, Caller, CallError, pool

STOCKOUT = (
    f"Resources are insufficient in region: {REGION}. Please try a different region or use a different accelerator."
)
NONE_LEFT = {"region": REGION, "machine": "a3-megagpu-8g", "count": 0}


def exits(caller: Caller, name: str, replica: str, code: int) -> None:
    caller.control("exit", {"job": name, "replica": replica, "code": code})


def test_a_job_ends_well_with_its_primary_replica(api: VertexApi, caller: Caller) -> None:
    name = caller.create()["name"]
    api.advance(2)
    assert caller.state(name) == "PENDING"
    api.advance(60)
    exits(caller, name, "workerpool1-0", 0)
    assert caller.state(name) == "RUNNING"
    api.advance(100)
    exits(caller, name, "workerpool0-0", 0)
    job = caller.get(name)
    assert (job["state"], "error" in job) == ("JOB_STATE_SUCCEEDED", False)
    times = [job[f"{each}Time"] for each in ("create", "start", "end", "update")]
    minutes = ("00:00", "01:02", "02:42", "02:42")
    assert times == [f"2027-01-15T08:{each}Z" for each in minutes]


def test_a_replica_that_fails_ends_the_job(api: VertexApi, caller: Caller) -> None:
    name = caller.running()
    exits(caller, name, "workerpool1-0", 1)
    job = caller.get(name)
    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_FAILED", 3)
    said = "The replica workerpool1-0 exited with a non-zero status of 1. To find out more about why your job exited"
    assert job["error"]["message"].startswith(said)


@pytest.mark.parametrize(("disabled", "attempts"), [(False, 4), (True, 1)])
def test_a_crash_begins_the_job_again_three_times(
    api: VertexApi, caller: Caller, disabled: bool, attempts: int
) -> None:
    name = caller.running(scheduling={"disableRetries": disabled})
    for attempt in range(attempts):
        assert caller.state(name) == "RUNNING", attempt
        exits(caller, name, "workerpool1-0", 139)
        if attempt < attempts - 1:
            assert caller.state(name) == "PENDING"
            api.advance(60)
    assert (caller.state(name), "139" in caller.get(name)["error"]["message"]) == ("FAILED", True)


def test_a_cancelled_job_has_code_1(api: VertexApi, caller: Caller) -> None:
    name = caller.running()
    assert caller.cancel(name) == {}
    assert caller.state(name) == "CANCELLING"
    assert caller.cancel(name) == {}
    api.advance(10)
    job = caller.get(name)
    assert (job["state"], job["error"]) == ("JOB_STATE_CANCELLED", {"code": 1, "message": "CANCELED"})
    assert job["endTime"] == job["updateTime"] == "2027-01-15T08:01:12Z"
    with pytest.raises(CallError, match=r"400 FAILED_PRECONDITION.*cannot be cancelled"):
        caller.cancel(name)
    api.cloud.behaviour = dataclasses.replace(api.cloud.behaviour, ended_jobs_refuse_cancel=False)
    assert caller.cancel(name) == {}


@pytest.mark.parametrize("after_s", [0, 2])
def test_a_job_that_waits_is_cancelled_too(api: VertexApi, caller: Caller, after_s: int) -> None:
    name = caller.create()["name"]
    api.advance(after_s)
    caller.cancel(name)
    api.advance(10)
    assert (caller.state(name), "startTime" in caller.get(name)) == ("CANCELLED", False)


def test_a_region_without_machines_fails_the_job(api: VertexApi, caller: Caller) -> None:
    caller.control("machines", NONE_LEFT)
    name = caller.create()["name"]
    api.advance(601)
    assert caller.state(name) == "PENDING"
    api.advance(1)
    assert caller.get(name)["error"] == {"code": 8, "message": STOCKOUT}
    assert caller.state(name) == "FAILED"


def test_machines_that_come_back_are_taken(api: VertexApi, caller: Caller) -> None:
    caller.control("machines", NONE_LEFT | {"count": 2})
    first, second = caller.running(), caller.create(title="second")["name"]
    api.advance(100)
    assert caller.state(second) == "PENDING"
    exits(caller, first, "workerpool0-0", 0)
    assert (caller.state(first), caller.state(second)) == ("SUCCEEDED", "RUNNING")


@pytest.mark.parametrize("ends_as", [JobState.EXPIRED, JobState.FAILED])
def test_flex_start_waits_until_it_expires(api: VertexApi, caller: Caller, ends_as: JobState) -> None:
    api.cloud.behaviour = dataclasses.replace(api.cloud.behaviour, unserved_ends_as=ends_as)
    caller.control("machines", NONE_LEFT | {"terms": "FLEX_START"})
    waits = {"strategy": "FLEX_START", "maxWaitDuration": "7200s"}
    name, forever = (
        caller.create(scheduling=waits)["name"],
        caller.create(scheduling=waits | {"maxWaitDuration": "0s"})["name"],
    )
    api.advance(7199)
    assert caller.state(name) == "PENDING"
    api.advance(1)
    assert caller.get(name)["state"] == ends_as
    api.advance(30 * 86_400)
    assert caller.state(forever) == "PENDING"
    caller.control("machines", NONE_LEFT | {"terms": "FLEX_START", "count": None})
    assert caller.state(forever) == "RUNNING"


def test_a_job_waits_for_quota_that_another_uses(api: VertexApi, caller: Caller) -> None:
    caller.control("quota", {"project": "p", "region": REGION, "metric": H100_QUOTA, "units": 16})
    first = caller.running()
    second = caller.create()["name"]
    api.advance(10 * 86_400)
    assert (caller.state(first), caller.state(second)) == ("CANCELLED", "RUNNING")  # after its timeout of 7 days
    assert caller.get(second)["startTime"] > caller.get(first)["endTime"]


def test_a_job_is_stopped_after_its_timeout(api: VertexApi, caller: Caller) -> None:
    name = caller.running(scheduling={"timeout": "600s"})
    api.advance(599)
    assert caller.state(name) == "RUNNING"
    api.advance(1)
    assert caller.state(name) == "CANCELLED"


def test_a_spot_job_is_restarted_six_times(api: VertexApi, caller: Caller) -> None:
    name = caller.running(scheduling={"strategy": "SPOT"})
    started = caller.get(name)["startTime"]
    for _ in range(6):
        caller.control("preempt", {"job": name})
        assert caller.state(name) == "PENDING"
        api.advance(60)
        assert caller.state(name) == "RUNNING"
    assert caller.get(name)["startTime"] == started
    caller.control("preempt", {"job": name})
    assert caller.get(name)["error"] == {"code": 8, "message": STOCKOUT}


def test_a_reservation_has_room_for_so_many(api: VertexApi, caller: Caller) -> None:
    reservation = f"projects/p/zones/{REGION}-a/reservations/r"
    affinity = {
        "reservationAffinityType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [reservation],
    }
    caller.control("machines", NONE_LEFT)
    caller.control("reservation", {"name": reservation, "count": 2})
    pools = [pool(machine={"reservationAffinity": affinity})] * 2
    first = caller.running(pools=pools)
    second = caller.create(pools=pools)["name"]
    api.advance(700)
    assert (caller.state(first), caller.state(second)) == ("RUNNING", "FAILED")


@pytest.mark.parametrize(("whole", "state"), [(False, "RUNNING"), (True, "PENDING")])
def test_maintenance_restarts_a_worker_or_the_job(api: VertexApi, caller: Caller, whole: bool, state: str) -> None:
    name = caller.running(scheduling={"restartJobOnWorkerRestart": whole})
    caller.control("maintenance", {"job": name, "replica": "workerpool1-0"})
    assert caller.state(name) == state
    api.advance(UNTIL_RUNNING_S)
    assert caller.state(name) == "RUNNING"


def test_levers_say_what_they_do_not_know(api: VertexApi, caller: Caller) -> None:
    name = caller.create()["name"]
    for path, values in (
        ("exit", {"job": "x", "replica": "r", "code": 0}),
        ("exit", {"job": name, "replica": "r", "code": 0}),
        ("preempt", {"job": name}),
        ("maintenance", {"job": name, "replica": "r"}),
        ("faults", {"kind": "BOOM"}),
        ("faults", {"kind": "CUT_AFTER", "rpc": "Boom"}),
        ("nothing", {}),
    ):
        with pytest.raises(AssertionError, match=r'^{"error": '):
            caller.control(path, values)
