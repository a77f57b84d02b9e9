"""Faults of the emulated Vertex AI: what a client learns, and what has happened all the same."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import requests

from infra.emulators.vertex_jobs import FaultKind, VertexApi
from infra.emulators.vertex_jobs.vertex_server import ROUTES
from tests.unit.vertex_jobs.caller import PARENT, Caller, CallError, wanted

RPCS = sorted(route.rpc for route in ROUTES)
LOST = {
    FaultKind.CUT_AFTER,
    FaultKind.CUT_BEFORE,
    FaultKind.CUT_WITHIN,
    FaultKind.TIMEOUT,
    FaultKind.TIMEOUT_AFTER,
}
OF_CALLS = [kind for kind in FaultKind if not kind.is_of_operation]


def call(caller: Caller, rpc: str, name: str) -> Any:
    """One of each kind, about a job that has ended; `name`'s operation where it is of one."""
    acts = {
        "CreateCustomJob": lambda: caller.create(title="new"),
        "GetCustomJob": lambda: caller.get(name),
        "ListCustomJobs": lambda: caller.titles(),
        "DeleteCustomJob": lambda: caller.delete(name),
        "CancelCustomJob": lambda: caller.cancel(name),
        "ListLogEntries": lambda: caller.entries(),
        "GetOperation": lambda: caller.get(name),
        "WaitOperation": lambda: caller.call("POST", f"{name}:wait", {}),
        "DeleteOperation": lambda: caller.delete(name),
    }
    return acts[rpc]()


def prepared(api: VertexApi, caller: Caller, rpc: str) -> str:
    """The name that a call of that kind is about, and whose effect can be seen."""
    name = str(caller.create()["name"])
    if rpc == "CancelCustomJob":
        return name
    caller.cancel(name)
    api.advance(20)
    return str(caller.delete(name)["name"]) if "Operation" in rpc else name


def effect(api: VertexApi, caller: Caller) -> Any:
    """All that a call may have changed."""
    api.advance(2)
    jobs = [(job.name, job.state) for job in api.cloud.jobs.values()]
    return jobs, list(api.job_calls.operations)


@pytest.mark.parametrize("kind", OF_CALLS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("rpc", RPCS)
def test_every_fault_of_every_call(api: VertexApi, caller: Caller, rpc: str, kind: FaultKind) -> None:
    name = prepared(api, caller, rpc)
    before = effect(api, caller)
    fault = api.fail(kind, rpc, retry_after_s=7)
    fault.release.set()  # what it holds is let go at once
    learned = True
    try:
        answer = call(caller, rpc, name)
        learned = answer not in ({}, []) or rpc in ("CancelCustomJob", "DeleteOperation")
    except (CallError, requests.exceptions.RequestException, ValueError):
        learned = False
    assert (fault.happened, api.calls_of(rpc)[-1].fault) == (1, kind.name)
    changes = rpc not in ("GetCustomJob", "ListCustomJobs", "GetOperation", "WaitOperation", "ListLogEntries")
    assert (effect(api, caller) != before) == (changes and kind.has_effect)
    assert learned == (kind is FaultKind.SLOW or (kind is FaultKind.EMPTY and learned))
    if kind in LOST:
        assert api.calls_of(rpc)[-1].status == 0


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        (FaultKind.TOO_MANY_REQUESTS, 429, "Quota exceeded for quota metric"),
        (FaultKind.INTERNAL_AFTER, 500, "Internal error encountered"),
        (FaultKind.UNAVAILABLE, 503, "currently unavailable"),
        (FaultKind.GATEWAY_TIMEOUT, 504, "Deadline expired"),
        (FaultKind.DENIED, 403, "Permission 'aiplatform.customJobs.create' denied"),
        (FaultKind.UNAUTHENTICATED, 401, "invalid authentication credentials"),
    ],
)
def test_a_refusal_has_its_status_and_words(api: VertexApi, kind: FaultKind, status: int, said: str) -> None:
    api.fail(kind, "CreateCustomJob", retry_after_s=7)
    answer = requests.post(f"{api.url}/v1/{PARENT}/customJobs", json=wanted(), timeout=30)
    assert (answer.status_code, said in answer.text) == (status, True)
    assert answer.headers.get("Retry-After") == ("7" if status == 429 else None)


def test_operations_of_a_delete_fail_or_are_late(api: VertexApi, caller: Caller) -> None:
    name = prepared(api, caller, "DeleteCustomJob")
    api.fail(FaultKind.OPERATION_ERROR, "DeleteCustomJob")
    failed = caller.delete(name)
    assert (failed["done"], failed["error"]["code"], caller.state(name)) == (True, 13, "CANCELLED")
    api.fail(FaultKind.OPERATION_ERROR_AFTER, "DeleteCustomJob")
    assert caller.delete(name)["error"]["code"] == 13
    api.advance(2)
    with pytest.raises(CallError, match="404 NOT_FOUND"):
        caller.get(name)
    other = prepared(api, caller, "DeleteCustomJob")
    api.fail(FaultKind.SLOW_OPERATION, "DeleteCustomJob", delay_s=60)
    slow = caller.delete(other)["name"]
    with pytest.raises(CallError, match="404 NOT_FOUND"):
        caller.get(other)
    assert "done" not in caller.get(slow)
    api.advance(60)
    assert caller.get(slow)["done"]


def test_a_held_call_can_be_waited_for(api: VertexApi, caller: Caller) -> None:
    """At that moment a test may kill the client: the job is there, and nobody was told."""
    fault = api.fail(FaultKind.TIMEOUT_AFTER, "CreateCustomJob")
    problems: list[Exception] = []

    def create() -> None:
        try:
            requests.post(f"{api.url}/v1/{PARENT}/customJobs", json=wanted(), timeout=30)
        except requests.exceptions.ConnectionError as error:
            problems.append(error)

    client = threading.Thread(target=create)
    client.start()
    assert fault.held.wait(30)
    assert caller.titles() == ["j"]
    caller.control("release")
    client.join()
    assert problems


def test_a_token_is_needed_where_one_is_set(caller: Caller) -> None:
    caller.api.token = "t"
    with pytest.raises(CallError, match="401 UNAUTHENTICATED"):
        caller.titles()
