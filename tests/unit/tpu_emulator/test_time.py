"""The TPU API emulator: what time does to a request."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from infra.emulators.tpu_api import HOST_READY, Cloud, TpuApi
from tests.emulators.instant import INSTANT
from tests.unit.tpu_emulator.client import PARENT, START_S, TIMINGS, ZONE, Client


@pytest.mark.parametrize(
    "policy",
    [
        {"valid_until_duration": {"seconds": 600}},
        {"valid_until_time": {"seconds": int(START_S) + 600}},
        {"valid_interval": {"end_time": {"seconds": int(START_S) + 600}}},
    ],
    ids=lambda policy: next(iter(policy)),
)
def test_a_request_that_is_not_filled_in_time_fails_and_stays(
    api: TpuApi, client: Client, policy: dict[str, Any]
) -> None:
    api.cloud.levers.stockout(ZONE, "v6e")
    client.create(queueing_policy=policy)
    api.advance(599)
    assert client.state() == "WAITING_FOR_RESOURCES"
    api.advance(1)
    state = client.get().state
    assert (state.state.name, state.failed_data.error.code) == ("FAILED", 4)
    api.cloud.levers.set_capacity(ZONE, "v6e", None)
    api.advance(86_400)
    assert client.state() == "FAILED"


def test_a_request_that_was_filled_in_time_does_not_expire(api: TpuApi, client: Client) -> None:
    client.create(queueing_policy={"valid_until_duration": {"seconds": 10}})
    api.advance(86_400)
    assert client.state() == "ACTIVE"


@pytest.mark.parametrize(
    "policy",
    [
        {"valid_after_duration": {"seconds": 600}},
        {"valid_after_time": {"seconds": int(START_S) + 600}},
        {
            "valid_interval": {
                "start_time": {"seconds": int(START_S) + 600},
                "end_time": {"seconds": int(START_S) + 900},
            }
        },
    ],
    ids=lambda policy: next(iter(policy)),
)
def test_a_request_is_not_filled_before_its_time(api: TpuApi, client: Client, policy: dict[str, Any]) -> None:
    client.create(queueing_policy=policy)
    api.advance(599)
    assert client.state() == "WAITING_FOR_RESOURCES"
    api.advance(1)
    assert client.state() == "PROVISIONING"


def test_one_long_step_of_time_equals_many_short_ones() -> None:
    ends: list[list[Any]] = []
    for step in (0.5, 7, 400):
        cloud = Cloud(TIMINGS, now_s=START_S)
        with TpuApi(cloud) as api:
            client = Client(api.url)
            cloud.levers.set_capacity(ZONE, "v6e", 32)
            client.create("a", spot={})
            client.create("b", queueing_policy={"valid_until_duration": {"seconds": 300}})
            while cloud.ledger.now_s < START_S + 400:
                api.advance(step)
            ends.append([(round(event.time_s, 3), event.target, event.text) for event in cloud.ledger.events])
            client.google.transport.close()
    assert ends[0] == ends[1] == ends[2]


def test_the_clock_may_run_with_calls_or_with_real_time() -> None:
    with TpuApi(Cloud(TIMINGS), seconds_per_call=10) as api:
        client = Client(api.url)
        client.create()
        polls = 0
        while client.state() != "ACTIVE":
            polls += 1
        assert polls in (6, 7)
        client.google.transport.close()
    with TpuApi(Cloud(TIMINGS), speed=10_000) as api:
        client = Client(api.url)
        client.create()
        deadline = time.monotonic() + 900
        while client.state() != "ACTIVE" and time.monotonic() < deadline:
            pass
        assert client.state() == "ACTIVE"
        client.google.transport.close()


def test_the_clouds_clock_may_differ_from_ours(client: Client, api: TpuApi) -> None:
    client.create()
    assert client.get().create_time.timestamp() == START_S
    answer = requests.get(f"{api.url}/v2/{PARENT}/nodes", timeout=900)
    assert answer.headers["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT"


def test_instant_timings_make_everything_within_the_call() -> None:
    with TpuApi(Cloud(INSTANT)) as api:
        client = Client(api.url)
        client.create()
        assert (client.state(), client.ready()) == ("ACTIVE", [HOST_READY.value] * 8)
        client.delete()
        assert client.requests() == []
        client.google.transport.close()
