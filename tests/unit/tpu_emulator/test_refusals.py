"""The TPU API emulator: quota and zones refuse in the words that were seen of the real service."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.json_format import MessageToDict

from infra.emulators.tpu_api import FaultKind, QuotaTier, TpuApi, ZoneRefusal
from tests.unit.tpu_emulator.client import PARENT, PROJECT_NUMBER, ZONE, Client, control, wanted

V5E = "projects/p/locations/us-east5-a"
NO_CAPACITY = re.compile(
    r'There is no more capacity in the zone "us-east5-b"; you can try in another zone where Cloud TPU Nodes are '
    r"offered \(see https://cloud.google.com/tpu/docs/regions\) \[EID: 0x[0-9a-f]{16}\]"
)


def refused_json(api: TpuApi, parent: str = PARENT, **changes: Any) -> dict[str, Any]:
    body = MessageToDict(tpu_v2.QueuedResource.pb(wanted(parent=parent, **changes)))
    url = f"{api.url}/v2/{parent}/queuedResources?queuedResourceId=q"
    return requests.post(url, json=body, timeout=900).json()["error"]


# --- quota ---


def test_a_quota_is_refused_word_for_word_as_seen(api: TpuApi) -> None:
    api.cloud.levers.set_quota("p", "us-east5-a", "v5e", 4)
    error = refused_json(api, V5E, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    name = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
    assert error == {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": f"Quota limit '{name}' has been exceeded. Limit: 4 in zone us-east5-a.",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [
                    {
                        "subject": f"project:{PROJECT_NUMBER}",
                        "description": f"Quota '{name}' exhausted. Limit 4 in zone us-east5-a",
                    }
                ],
            }
        ],
    }


def test_googles_client_reads_a_quota_refusal_as_details_without_a_reason(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_quota("p", ZONE, "v6e", 16)
    with pytest.raises(exceptions.TooManyRequests) as caught:
        client.create()
    assert (caught.value.reason, caught.value.metadata) == (None, None)
    (failure,) = caught.value.details  # over REST, JSON as it came
    assert failure["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    assert failure["violations"][0]["subject"] == f"project:{PROJECT_NUMBER}"


@pytest.mark.parametrize(
    ("size", "tier", "name"),
    [
        ("v5litepod-4", "", "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"),
        ("v5litepod-8", "spot", "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI"),
        ("v5litepod-16", "", "TPUV5sLitepodPerProjectPerZoneForTPUAPI"),
        ("v5litepod-16", "spot", "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI"),
    ],
)
def test_single_hosts_of_v5e_have_a_serving_quota(api: TpuApi, size: str, tier: str, name: str) -> None:
    spot: dict[str, Any] = {"spot": {}} if tier else {}
    for quota_tier in QuotaTier:
        api.cloud.levers.set_quota("p", "us-east5-a", "v5e", 0, quota_tier)
    error = refused_json(api, V5E, accelerator_type=size, runtime_version="v2-alpha-tpuv5-lite", **spot)
    assert error["message"] == f"Quota limit '{name}' has been exceeded. Limit: 0 in zone us-east5-a."


def test_serving_and_training_quota_are_apart(api: TpuApi) -> None:
    api.cloud.levers.set_quota("p", "us-east5-a", "v5e", 16)
    client = Client(api.url, V5E)
    kind: dict[str, Any] = {"runtime_version": "v2-alpha-tpuv5-lite"}
    client.create("a", accelerator_type="v5litepod-16", **kind)
    client.create("b", accelerator_type="v5litepod-8", **kind)
    client.create("c", accelerator_type="v5litepod-8", **kind)
    for size in ("v5litepod-16", "v5litepod-4"):
        with pytest.raises(exceptions.TooManyRequests):
            client.create("d", accelerator_type=size, **kind)
    client.google.transport.close()


def test_a_quota_of_a_region_says_region(api: TpuApi) -> None:
    api.cloud.levers.set_quota("p", "us-east5", "v5p", 0)
    error = refused_json(api, V5E, accelerator_type="v5p-8", runtime_version="v2-alpha-tpuv5")
    name = "TPUV5PPerProjectPerRegionForTPUAPI"
    assert error["message"] == f"Quota limit '{name}' has been exceeded. Limit: 0 in region us-east5."
    assert error["details"][0]["violations"][0]["description"].endswith("Limit 0 in region us-east5")


def test_too_many_calls_a_minute_is_another_429(api: TpuApi, client: Client) -> None:
    api.fail(FaultKind.TOO_MANY_REQUESTS)
    with pytest.raises(exceptions.TooManyRequests, match="and limit 'Requests per minute' of service") as caught:
        client.create()
    assert (caught.value.reason, caught.value.domain) == ("RATE_LIMIT_EXCEEDED", "googleapis.com")
    metadata = caught.value.metadata or {}
    assert "PerMinute" in metadata["quota_limit"]
    assert metadata["consumer"] == f"projects/{PROJECT_NUMBER}"


# --- zones ---


def test_a_zone_without_the_accelerator_is_a_400_that_names_both(client: Client) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        client.create(accelerator_type="v6e-33")
    sentence = "Cloud TPU received a bad request. the accelerator v6e-33 was not found in zone us-east5-b [EID: 0x"
    assert sentence in str(caught.value.message)
    assert caught.value.reason is None


def test_a_zone_may_lack_an_accelerator_that_the_table_has_in_it(api: TpuApi, client: Client) -> None:
    api.cloud.levers.refuse(ZONE, ZoneRefusal.NOT_IN_ZONE, "v6e-32")
    with pytest.raises(exceptions.BadRequest, match="the accelerator v6e-32 was not found in zone us-east5-b"):
        client.create()
    kinds = [kind.type_ for kind in client.google.list_accelerator_types(parent=PARENT)]
    assert "v6e-32" not in kinds
    assert "v6e-16" in kinds
    api.cloud.levers.refuse(ZONE, None, "v6e-32")
    client.create()


def test_a_zone_that_the_projects_policy_closes_answers_403_to_every_call(api: TpuApi, client: Client) -> None:
    client.create()
    api.cloud.levers.refuse(ZONE, ZoneRefusal.LOCATION_POLICY)
    for call in (client.get, client.requests, client.nodes, client.delete, lambda: client.create("b")):
        with pytest.raises(
            exceptions.Forbidden, match=re.escape("Permission denied on 'locations/us-east5-b'")
        ) as caught:
            call()
        assert (caught.value.reason, caught.value.domain) == ("LOCATION_POLICY_VIOLATED", "googleapis.com")
    other = Client(api.url, "projects/p/locations/us-east5-a")
    assert other.requests() == []
    other.google.transport.close()


def test_a_full_zone_may_end_the_operation_instead_of_letting_the_request_wait(api: TpuApi, client: Client) -> None:
    api.cloud.levers.refuse(ZONE, ZoneRefusal.NO_CAPACITY, "v6e")
    operation = client.create(spot={})
    assert not client.operation(operation).done
    api.advance(2)
    code, message = client.error_of(operation)
    assert code == 8
    assert NO_CAPACITY.fullmatch(message)
    assert client.requests() == []
    with pytest.raises(exceptions.ResourceExhausted):
        operation.result(timeout=900)


def test_what_an_operation_refuses_may_stay_as_a_failed_request(api: TpuApi, client: Client) -> None:
    api.cloud.levers.refuse(ZONE, ZoneRefusal.NO_CAPACITY, stays=True)
    operation = client.create()
    assert client.state() == "CREATING"
    api.advance(2)
    assert (client.state(), client.error_of(operation)[0]) == ("FAILED", 8)
    assert NO_CAPACITY.fullmatch(client.get().state.failed_data.error.message)


def test_a_zone_with_none_for_sale_refuses_what_is_on_demand_only(api: TpuApi) -> None:
    api.cloud.levers.refuse("us-east5-a", ZoneRefusal.NONE_FOR_SALE, "v5e")
    client = Client(api.url, V5E)
    kind: dict[str, Any] = {"accelerator_type": "v5litepod-4", "runtime_version": "v2-alpha-tpuv5-lite"}
    operation = client.create("on-demand", **kind)
    client.create("spot", spot={}, **kind)
    api.advance(2)
    assert client.error_of(operation) == (5, "Reservation not found")
    assert client.requests() == ["spot"]
    with pytest.raises(exceptions.NotFound, match="Reservation not found"):
        operation.result(timeout=900)
    client.google.transport.close()


def test_nodes_without_a_queue_are_refused_the_same_ways(api: TpuApi, client: Client) -> None:
    node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
    api.cloud.levers.refuse(ZONE, ZoneRefusal.NOT_IN_ZONE)
    with pytest.raises(exceptions.BadRequest, match="was not found in zone"):
        client.google.create_node(parent=PARENT, node_id="n", node=node)
    for refusal, code in ((ZoneRefusal.NO_CAPACITY, 8), (ZoneRefusal.NONE_FOR_SALE, 5)):
        api.cloud.levers.refuse(ZONE, refusal)
        operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
        api.advance(2)
        assert client.error_of(operation)[0] == code
    api.cloud.levers.refuse(ZONE, None)
    node.scheduling_config.reserved = True
    operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
    api.advance(2)
    assert client.error_of(operation)[1].startswith("Insufficient reserved capacity. Contact customer support")
    assert client.nodes() == {}


def test_refusals_are_scripted_over_http_and_survive_a_snapshot(api: TpuApi, client: Client) -> None:
    control(api, "refuse", {"zone": ZONE, "how": "none for sale", "accelerator": "v6e", "stays": True})
    control(api, "restore", control(api, "snapshot", None, "GET"))
    operation = client.create()
    api.advance(2)
    assert (client.error_of(operation), client.state()) == ((5, "Reservation not found"), "FAILED")
    control(api, "refuse", {"zone": ZONE, "how": None, "accelerator": "v6e"})
    assert control(api, "state", None, "GET")["refused"] == []
