"""The TPU API emulator: when a request may start, what it may draw on, and flex-start, which is v2alpha1's alone."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2alpha1
from google.protobuf.json_format import MessageToDict

from infra.emulators.tpu_api import QuotaTier, TpuApi
from tests.unit.tpu_emulator.client import PARENT, PROJECT_NUMBER, START_S, UNTIL_ACTIVE_S, ZONE, Client

# --- timing ---


def test_googles_client_keeps_the_last_of_two_timing_constraints(api: TpuApi, client: Client) -> None:
    client.create(queueing_policy={"valid_after_duration": {"seconds": 100}, "valid_until_duration": {"seconds": 60}})
    policy = client.get().queueing_policy
    assert ("valid_until_duration" in policy, "valid_after_duration" in policy) == (True, False)
    api.cloud.levers.stockout(ZONE, "v6e")
    api.advance(60)
    assert client.state() == "FAILED"


def test_two_timing_constraints_in_json_are_refused_in_the_words_of_googles_frontend(api: TpuApi) -> None:
    node = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    body = {
        "tpu": {"nodeSpec": [{"parent": PARENT, "nodeId": "q", "node": node}]},
        "queueingPolicy": {"validAfterDuration": "100s", "validUntilDuration": "60s"},
    }
    answer = requests.post(f"{api.url}/v2/{PARENT}/queuedResources?queuedResourceId=q", json=body, timeout=900)
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        400,
        "Invalid value at 'queued_resource.queueing_policy' (oneof), oneof field 'start_timing_constraints' is already "
        "set. Cannot set 'validUntilDuration'",
    )


def test_an_interval_is_both_constraints(api: TpuApi, client: Client) -> None:
    interval = {"start_time": {"seconds": int(START_S) + 100}, "end_time": {"seconds": int(START_S) + 200}}
    client.create("a", queueing_policy={"valid_interval": interval})
    client.create("b", queueing_policy={"valid_interval": interval}, accelerator_type="v6e-8")
    api.cloud.levers.stockout(ZONE, "v6e-8")
    api.advance(99)
    assert client.state("a") == "WAITING_FOR_RESOURCES"
    api.advance(101)
    assert (client.state("a"), client.state("b")) == ("ACTIVE", "FAILED")


# --- reservations ---


@pytest.mark.parametrize(
    "asked",
    [
        f"{PARENT}/reservations/-",
        f"{PARENT}/reservations/r",
        f"projects/{PROJECT_NUMBER}/locations/{ZONE}/reservations/-",
        f"folders/123/locations/{ZONE}/reservations/-",
        f"folders/123/locations/{ZONE}/reservations/r",
        f"organizations/456/locations/{ZONE}/reservations/-",
    ],
)
def test_a_reservation_is_named_in_any_of_gclouds_ways_and_nothing_else_says_reserved(
    api: TpuApi, client: Client, asked: str
) -> None:
    api.cloud.levers.set_reservation(f"{PARENT}/reservations/r", "v6e", 32)
    api.cloud.levers.stockout(ZONE, "v6e")
    client.create(reservation_name=asked)
    api.advance(UNTIL_ACTIVE_S)
    assert client.state() == "ACTIVE"
    assert client.get().reservation_name == asked


@pytest.mark.parametrize(
    "asked", [f"projects/other/locations/{ZONE}/reservations/-", f"{PARENT}/reservations/s", f"{PARENT}/reservations/-"]
)
def test_a_reservation_that_is_not_there_ends_the_operation(api: TpuApi, client: Client, asked: str) -> None:
    if asked != f"{PARENT}/reservations/-":
        api.cloud.levers.set_reservation(f"{PARENT}/reservations/r", "v6e", 32)
    operation = client.create(reservation_name=asked)
    api.advance(2)
    assert (client.error_of(operation), client.requests()) == ((5, "Reservation not found"), [])


@pytest.mark.parametrize(
    "asked", ["projects/p/locations/us-east5-a/reservations/-", "teams/1/locations/z/reservations/r"]
)
def test_a_reservation_elsewhere_or_of_nobody_is_refused(client: Client, asked: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="is not a reservation in us-east5-b"):
        client.create(reservation_name=asked)


# --- v2alpha1 ---

URL = f"v2alpha1/{PARENT}/queuedResources"


def flex_start(run_duration: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    node = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    spec = {"parent": PARENT, "nodeId": "q", "node": node}
    duration = {"runDuration": {"maxRunDuration": "3600s"} if run_duration is None else run_duration}
    return {"tpu": {"nodeSpec": [spec]}, "provisioningModel": "FLEX_START", **duration, **changes}


def test_flex_start_is_kept_shown_and_suspended_after_its_run(api: TpuApi, client: Client) -> None:
    answer = requests.post(f"{api.url}/{URL}?queuedResourceId=q", json=flex_start(), timeout=900)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["apiVersion"] == "v2alpha1"
    api.advance(UNTIL_ACTIVE_S)
    shown = requests.get(f"{api.url}/{URL}/q", timeout=900).json()
    assert (shown["state"]["state"], shown["provisioningModel"]) == ("ACTIVE", "FLEX_START")
    assert shown["runDuration"] == {"maxRunDuration": "3600s", "terminationTime": "2027-01-15T09:01:07Z"}
    assert "provisioningModel" not in requests.get(f"{api.url}/v2/{client.request()}", timeout=900).json()
    api.cloud.ledger.restore(api.cloud.ledger.snapshot())
    api.advance(3599)
    assert client.state() == "ACTIVE"
    api.advance(1 + 30)
    state = client.get().state
    assert (state.state.name, state.state_initiator.name, client.nodes()) == ("SUSPENDED", "SERVICE", {})
    assert requests.delete(f"{api.url}/{URL}/q?force=true", timeout=900).status_code == 200
    assert requests.get(f"{api.url}/{URL}", timeout=900).json() == {}


def test_flex_start_counts_against_the_preemptible_quota(api: TpuApi) -> None:
    api.cloud.levers.set_quota("p", ZONE, "v6e", 0, QuotaTier.SPOT)
    answer = requests.post(f"{api.url}/{URL}?queuedResourceId=q", json=flex_start(), timeout=900)
    assert "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (flex_start({"maxRunDuration": "604801s"}), "at most 7 days"),
        (flex_start({"maxRunDuration": "1h"}), "google.protobuf.Duration"),
        (flex_start({"maxRun": "1s"}), "maxRun"),
        (flex_start(spot={}), "ask for one of them"),
        (flex_start(provisioningModel="FLEX"), "FLEX_START"),
        (flex_start(speed=11), "speed"),
    ],
)
def test_a_flex_start_that_cannot_be_is_refused(api: TpuApi, body: Any, complaint: str) -> None:
    answer = requests.post(f"{api.url}/{URL}?queuedResourceId=q", json=body, timeout=900)
    assert (answer.status_code, complaint in answer.json()["error"]["message"]) == (400, True), answer.text


def test_v2_does_not_know_flex_start(api: TpuApi) -> None:
    answer = requests.post(f"{api.url}/v2/{PARENT}/queuedResources?queuedResourceId=q", json=flex_start(), timeout=900)
    assert (answer.status_code, "provisioningModel" in answer.text) == (400, True)


def test_googles_messages_of_v2alpha1_go_in_and_come_out(api: TpuApi) -> None:
    """Google's package of v2alpha1 has no REST transport, so its messages travel by hand."""
    node = {"accelerator_type": "v6e-8", "runtime_version": "v2-alpha-tpuv6e", "autocheckpoint_enabled": True}
    params = {"node_count": 2, "workload_type": "AVAILABILITY_OPTIMIZED"}
    spec = {"parent": PARENT, "node": node, "multi_node_params": params}
    wanted = tpu_v2alpha1.QueuedResource({"tpu": {"node_spec": [spec]}, "best_effort": {}})
    body = MessageToDict(tpu_v2alpha1.QueuedResource.pb(wanted))
    answer = requests.post(f"{api.url}/{URL}?queuedResourceId=q", json=body, timeout=900)
    assert answer.status_code == 200, answer.text
    api.advance(UNTIL_ACTIVE_S)
    made = requests.get(f"{api.url}/{URL}/q?$alt=json;enum-encoding=int", timeout=900)
    shown = tpu_v2alpha1.QueuedResource.from_json(made.text, ignore_unknown_fields=True)
    (spec,) = shown.tpu.node_spec
    workload = spec.multi_node_params.workload_type
    assert (spec.multi_node_params.node_count, workload) == (2, workload.AVAILABILITY_OPTIMIZED)
    assert (spec.node.autocheckpoint_enabled, "best_effort" in shown) == (True, True)
    for query in ("", "?$alt=json;enum-encoding=int"):
        text = requests.get(f"{api.url}/v2alpha1/{PARENT}/nodes{query}", timeout=900).text
        nodes = tpu_v2alpha1.ListNodesResponse.from_json(text, ignore_unknown_fields=True).nodes
        assert [node.api_version for node in nodes] == [tpu_v2alpha1.Node.ApiVersion.V2_ALPHA1] * 2
    operation = requests.get(f"{api.url}/v2alpha1/{answer.json()['name']}", timeout=900).json()
    assert operation["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2alpha1.QueuedResource"
    assert operation["response"]["tpu"]["nodeSpec"][0]["multiNodeParams"]["nodeCount"] == 2
