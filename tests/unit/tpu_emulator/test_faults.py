"""The TPU API emulator: every fault, and whether the call had an effect."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import InvalidOperation  # what AnonymousCredentials make of a 401
from google.protobuf import json_format

from infra.emulators.tpu_api import FaultKind, TpuApi
from tests.unit.tpu_emulator.client import PARENT, UNTIL_ACTIVE_S, Client, control

NOTHING_DONE = {
    FaultKind.TOO_MANY_REQUESTS: exceptions.TooManyRequests,
    FaultKind.INTERNAL: exceptions.InternalServerError,
    FaultKind.UNAVAILABLE: exceptions.ServiceUnavailable,
    FaultKind.GATEWAY_TIMEOUT: exceptions.GatewayTimeout,
    FaultKind.DENIED: exceptions.Forbidden,
    FaultKind.UNAUTHENTICATED: InvalidOperation,
    FaultKind.CUT_BEFORE: requests.ConnectionError,
    FaultKind.TIMEOUT: requests.ReadTimeout,
}
DONE = {
    FaultKind.INTERNAL_AFTER: exceptions.InternalServerError,
    FaultKind.UNAVAILABLE_AFTER: exceptions.ServiceUnavailable,
    FaultKind.GATEWAY_TIMEOUT_AFTER: exceptions.GatewayTimeout,
    FaultKind.CUT_AFTER: requests.ConnectionError,
    FaultKind.CUT_WITHIN: requests.exceptions.ChunkedEncodingError,
    FaultKind.TIMEOUT_AFTER: requests.ReadTimeout,
    FaultKind.MALFORMED: json_format.ParseError,
}


@pytest.mark.parametrize("kind", [*NOTHING_DONE, *DONE], ids=lambda kind: kind.name)
def test_a_fault_and_whether_it_had_an_effect(api: TpuApi, client: Client, kind: FaultKind) -> None:
    api.fail(kind, "CreateQueuedResource")
    patience_s = 0.2 if kind in (FaultKind.TIMEOUT, FaultKind.TIMEOUT_AFTER) else 60
    with pytest.raises((NOTHING_DONE | DONE)[kind]):
        client.create(timeout=patience_s)
    assert client.requests() == (["q"] if kind in DONE else [])
    assert kind.has_effect == (kind in DONE)
    if kind in NOTHING_DONE:
        client.create()  # once only


def test_the_faults_of_these_tests_are_all_there_are() -> None:
    operations = {kind for kind in FaultKind if kind.is_of_operation}
    assert {*NOTHING_DONE, *DONE, *operations, FaultKind.EMPTY, FaultKind.SLOW} == set(FaultKind)


def test_429_says_when_to_come_back(api: TpuApi, client: Client) -> None:
    api.fail(FaultKind.TOO_MANY_REQUESTS, retry_after_s=7)
    with pytest.raises(exceptions.TooManyRequests) as caught:
        client.create()
    answer: Any = caught.value.response
    assert answer.headers["Retry-After"] == "7"


def test_an_empty_answer_reads_as_an_empty_message(api: TpuApi, client: Client) -> None:
    client.create()
    api.fail(FaultKind.EMPTY, "GetQueuedResource")
    assert client.get().name == ""


def test_what_is_slow_happens_after_the_client_gave_up(api: TpuApi, client: Client) -> None:
    fault = api.fail(FaultKind.SLOW, "CreateQueuedResource")
    with pytest.raises(requests.ReadTimeout):
        client.create(timeout=0.2)
    assert client.requests() == []
    assert fault.held.is_set()
    assert [one["held"] for one in control(api, "faults", None, "GET")] == [True]
    fault.release.set()
    deadline = time.monotonic() + 900
    while client.requests() != ["q"] and time.monotonic() < deadline:
        pass
    assert client.requests() == ["q"]


def test_a_slow_operation_ends_later_than_its_effect(api: TpuApi, client: Client) -> None:
    api.fail(FaultKind.SLOW_OPERATION, delay_s=300)
    operation = client.create()
    api.advance(299)
    assert (client.operation(operation).done, client.state()) == (False, "ACTIVE")
    api.advance(1)
    assert client.operation(operation).done


@pytest.mark.parametrize("kind", [FaultKind.OPERATION_ERROR, FaultKind.OPERATION_ERROR_AFTER])
def test_an_operation_that_ends_in_an_error_may_have_done_it_all_the_same(
    api: TpuApi, client: Client, kind: FaultKind
) -> None:
    api.fail(kind)
    client.requests()  # answers with no operation, so the fault waits
    operation = client.create()
    with pytest.raises(exceptions.InternalServerError):
        operation.result(timeout=900)
    api.advance(UNTIL_ACTIVE_S)
    assert client.requests() == (["q"] if kind.has_effect else [])
    assert client.operation(operation).error.code == 13  # INTERNAL


def test_a_fault_hits_the_chosen_calls_only(api: TpuApi, client: Client) -> None:
    fault = api.fail(FaultKind.UNAVAILABLE, "GetQueuedResource", path="queuedResources/b", skip=1, times=2)
    client.create("a")
    client.create("b")
    for _ in range(3):
        client.get("a")
    client.get("b")
    for _ in range(2):
        with pytest.raises(exceptions.ServiceUnavailable):
            client.get("b")
    client.get("b")
    assert (fault.happened, [call.fault for call in api.calls if call.fault]) == (2, ["UNAVAILABLE"] * 2)
    with pytest.raises(ValueError, match="is not a call; calls: "):
        api.fail(FaultKind.UNAVAILABLE, "CreateQueuedResources")
    with pytest.raises(ValueError, match="is not a method"):
        api.fail(FaultKind.UNAVAILABLE, method="post")


def test_what_is_cut_after_a_refusal_is_not_learned_either(api: TpuApi, client: Client) -> None:
    api.fail(FaultKind.CUT_AFTER)
    with pytest.raises(requests.ConnectionError):
        client.create(accelerator_type="v6e-33")
    assert (api.calls[0].status, api.calls[0].rpc) == (0, "CreateQueuedResource")


def test_many_clients_at_once(api: TpuApi) -> None:
    def one(number: int) -> None:
        client = Client(api.url)
        client.create(f"q{number}", accelerator_type="v6e-1")
        client.get(f"q{number}")
        client.google.transport.close()

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(32)))
    assert len(api.cloud.ledger.requests) == 32
    assert sorted(call.number for call in api.calls) == list(range(1, 65))


def test_what_has_ended_answers_nobody(client: Client) -> None:
    with TpuApi() as api:
        session = requests.Session()
        assert session.get(f"{api.url}/v2/{PARENT}/nodes", timeout=900).status_code == 200
    with pytest.raises(requests.ConnectionError):
        session.get(f"{api.url}/v2/{PARENT}/nodes", timeout=900)
    session.close()


def test_an_error_of_the_emulator_fails_the_test_that_meets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), TpuApi() as api:
        monkeypatch.setattr(api.cloud.transitions, "advance", broken)
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{api.url}/v2/{PARENT}/nodes", timeout=900)
    assert "ZeroDivisionError" in capsys.readouterr().err
