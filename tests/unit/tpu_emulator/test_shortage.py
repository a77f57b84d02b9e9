"""The TPU API emulator: no capacity, no quota."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

from infra.emulators.tpu_api import Behaviour, Cloud, QuotaRefusal, QuotaTier, TpuApi
from tests.unit.tpu_emulator.client import PARENT, START_S, TIMINGS, UNTIL_ACTIVE_S, ZONE, Client


def test_stockout_keeps_requests_waiting_and_ends(api: TpuApi, client: Client) -> None:
    api.cloud.levers.stockout(ZONE, "v6e-32")
    client.create()
    client.create("small", accelerator_type="v6e-8")
    api.advance(86_400)
    assert (client.state(), client.state("small")) == ("WAITING_FOR_RESOURCES", "ACTIVE")
    api.cloud.levers.set_capacity(ZONE, "v6e-32", None)
    api.advance(60)
    assert client.state() == "ACTIVE"


def test_a_node_without_a_queue_fails_at_once_in_a_stockout(api: TpuApi, client: Client) -> None:
    api.cloud.levers.stockout(ZONE, "v6e")
    node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
    operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
    api.advance(2)
    with pytest.raises(exceptions.ResourceExhausted, match="no more capacity in the zone"):
        operation.result(timeout=900)
    assert client.nodes() == {}


def test_a_node_without_a_queue_starts_stops_and_goes(api: TpuApi, client: Client) -> None:
    node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
    operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
    api.advance(60)
    made: Any = operation.result(timeout=900)
    assert made.state.name == "READY"
    client.google.stop_node(request={"name": client.node_name("n")})
    assert client.nodes() == {"n": "STOPPING"}
    api.advance(2)
    assert client.nodes() == {"n": "STOPPED"}
    client.google.start_node(request={"name": client.node_name("n")})
    api.advance(2)
    assert client.nodes() == {"n": "READY"}
    deletion = client.google.delete_node(name=client.node_name("n"))
    api.advance(20)
    assert client.nodes() == {}
    deletion.result(timeout=900)


def test_quota_is_held_until_an_inactive_request_is_deleted(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_quota("p", ZONE, "v6e", 32, QuotaTier.SPOT)
    client.create("a", spot={})
    api.advance(UNTIL_ACTIVE_S)
    api.cloud.levers.preempt(client.request("a"))
    api.advance(30)
    assert client.state("a") == "SUSPENDED"
    with pytest.raises(exceptions.TooManyRequests) as caught:
        client.create("b", spot={})
    assert caught.value.message.endswith(  # the client puts method and address before it
        "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded. Limit: 32 in zone us-east5-b."
    )
    client.create("c")  # on demand is another quota
    client.delete("a")
    client.create("b", spot={})


def test_quota_of_a_region_counts_all_its_zones_and_in_the_tables_unit(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_quota("p", "us-east5", "v5p", 32)  # TensorCores
    other = Client(api.url, "projects/p/locations/us-east5-a")
    other.create("a", accelerator_type="v5p-16", runtime_version="v2-alpha-tpuv5")
    api.cloud.levers.set_quota("other", "us-east5", "v5p", 0)
    with pytest.raises(exceptions.TooManyRequests, match=r"PerRegion.*Limit: 32 in region us-east5"):
        other.create("b", accelerator_type="v5p-32", runtime_version="v2-alpha-tpuv5")
    other.create("b", accelerator_type="v5p-16", runtime_version="v2-alpha-tpuv5")
    other.google.transport.close()


@pytest.mark.parametrize("refusal", [QuotaRefusal.IN_OPERATION, QuotaRefusal.FAILED_REQUEST])
def test_quota_may_also_be_refused_later(refusal: QuotaRefusal) -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(quota_refusal=refusal), START_S)) as api:
        api.cloud.levers.set_quota("p", ZONE, "v6e", 0)
        client = Client(api.url)
        operation = client.create()
        api.advance(2)
        assert client.operation(operation).error.code == 8  # RESOURCE_EXHAUSTED
        assert client.requests() == ([] if refusal is QuotaRefusal.IN_OPERATION else ["q"])
        if refusal is QuotaRefusal.FAILED_REQUEST:
            assert "Quota limit" in client.get().state.failed_data.error.message
        client.google.transport.close()
