"""The TPU API emulator: the life of a request, from its create to its delete."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

from infra.emulators.tpu_api import HOST_READY, Behaviour, Cloud, TpuApi
from tests.unit.tpu_emulator.client import PARENT, START_S, TIMINGS, UNTIL_ACTIVE_S, ZONE, Client, reason

# --- the life of a request ---


def test_on_demand_from_creating_to_hosts_ready_and_gone(api: TpuApi, client: Client) -> None:
    operation = client.create()
    assert client.state() == "CREATING"
    assert not client.operation(operation).done
    api.advance(2)
    assert (client.state(), client.nodes()) == ("WAITING_FOR_RESOURCES", {})
    assert client.operation(operation).done
    api.advance(5)
    assert (client.state(), client.nodes()) == ("PROVISIONING", {"q": "CREATING"})
    assert not client.node().network_endpoints
    api.advance(60)
    assert (client.state(), client.nodes()) == ("ACTIVE", {"q": "READY"})
    assert len(client.node().network_endpoints) == 8
    assert client.ready() == [""] * 8
    api.advance(92)
    assert client.ready() == [HOST_READY.value] * 3 + [""] * 5
    api.advance(5)
    assert client.ready() == [HOST_READY.value] * 8
    deletion = client.delete()
    assert (client.state(), client.nodes()) == ("DELETING", {"q": "DELETING"})
    api.advance(20)
    assert (client.requests(), client.nodes()) == ([], {})
    assert deletion.result(timeout=900) is not None  # google.protobuf.Empty


def test_the_operation_of_a_create_holds_the_request(api: TpuApi, client: Client) -> None:
    operation = client.create()
    api.advance(2)
    assert operation.result(timeout=900).name == client.request()
    metadata = operation.metadata
    assert (metadata.verb, metadata.target, metadata.api_version) == ("create", client.request(), "v2")
    assert (metadata.end_time - metadata.create_time).total_seconds() == 2


def test_the_requests_copy_of_the_node_stays_as_it_was_created(api: TpuApi, client: Client) -> None:
    client.create(labels={"a": "1"}, metadata={"m": "1"}, tags=["t"])
    api.advance(UNTIL_ACTIVE_S)
    client.patch(
        tpu_v2.Node(name=client.node_name(), labels={"b": "2"}, metadata={"m": "2"}, tags=["u", "v"]),
        ["labels", "metadata", "tags"],
    )
    node, copy = client.node(), client.get().tpu.node_spec[0].node
    assert (dict(node.labels), dict(node.metadata), list(node.tags)) == ({"b": "2"}, {"m": "2"}, ["u", "v"])
    assert (dict(copy.labels), dict(copy.metadata), list(copy.tags)) == ({"a": "1"}, {"m": "1"}, ["t"])


def test_a_patch_changes_only_what_its_mask_names(api: TpuApi, client: Client) -> None:
    client.create(labels={"a": "1"}, description="d")
    api.advance(UNTIL_ACTIVE_S)
    changed = tpu_v2.Node(name=client.node_name(), labels={"b": "2"}, description="other")
    client.patch(changed, ["labels"])
    assert (dict(client.node().labels), client.node().description) == ({"b": "2"}, "d")
    for mask in (["data_disks"], ["runtime_version"], []):
        with pytest.raises(exceptions.BadRequest):
            client.patch(changed, mask)


def test_a_spot_node_says_so(api: TpuApi, client: Client) -> None:
    client.create(spot={})
    api.advance(UNTIL_ACTIVE_S)
    node = client.node()
    assert node.scheduling_config.spot
    assert not node.multislice_node


def test_multislice_makes_numbered_nodes_all_or_none(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_capacity(ZONE, "v6e", 3 * 32 - 1)
    client.create(slices=3)
    api.advance(3600)
    assert (client.state(), client.nodes()) == ("WAITING_FOR_RESOURCES", {})
    api.cloud.levers.set_capacity(ZONE, "v6e", 3 * 32)
    api.advance(60)
    assert client.nodes() == {"q-0": "READY", "q-1": "READY", "q-2": "READY"}
    assert client.node("q-2").multislice_node


def test_guaranteed_and_a_named_reservation(api: TpuApi, client: Client) -> None:
    reservation = f"{PARENT}/reservations/r"
    operation = client.create(guaranteed={}, reservation_name=reservation)
    api.advance(2)
    assert (client.error_of(operation), client.requests()) == ((5, "Reservation not found"), [])
    api.cloud.levers.set_reservation(reservation, "v6e", 32)
    api.cloud.levers.stockout(ZONE, "v6e")
    client.create("a", guaranteed={}, reservation_name=reservation)
    client.create("b", guaranteed={}, reservation_name=reservation)
    client.create("c", guaranteed={"min_duration": {"seconds": 3600}})
    client.create("d", scheduling_config={"reserved": True})
    api.advance(UNTIL_ACTIVE_S)
    assert [client.state(name) for name in "abcd"] == ["ACTIVE", *["WAITING_FOR_RESOURCES"] * 3]
    assert client.node("a").scheduling_config.reserved
    client.delete("a")
    api.advance(20 + 60)
    assert client.state("b") == "ACTIVE"


def test_accelerator_config_stands_for_a_type(api: TpuApi, client: Client) -> None:
    client.create(accelerator_type="", accelerator_config={"type_": "V6E", "topology": "4x8"})
    api.advance(UNTIL_ACTIVE_S)
    assert client.node().accelerator_type == "v6e-32"


@pytest.mark.parametrize(
    "changes",
    [
        {"accelerator_type": "v6e-33"},
        {"accelerator_type": "v5p-8192000"},
        {"accelerator_type": ""},
        {"accelerator_config": {"type_": "V6E", "topology": "4x8"}},
        {"runtime_version": ""},
        {"runtime_version": "v1"},
        {"labels": {"Owner": "me"}},
        {"tags": ["Not a tag"]},
        {"description": "x" * 513},
        {"metadata": {"startup-script": "x" * 262_145}},
        {"network_config": {"network": "a"}, "network_configs": [{"network": "b"}]},
        {"data_disks": [{"source_disk": "disk"}]},
        {"reservation_name": "r"},
        {"slices": 0},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_what_cannot_be_is_refused_at_the_call(client: Client, changes: dict[str, Any]) -> None:
    with pytest.raises(exceptions.BadRequest):
        client.create(**changes)
    assert client.requests() == []


def test_a_zone_that_does_not_exist_reads_as_denied(api: TpuApi) -> None:
    client = Client(api.url, "projects/p/locations/us-nowhere1-a")
    with pytest.raises(exceptions.Forbidden, match=re.escape("(or it may not exist)")):
        client.create()
    client.google.transport.close()


def test_a_name_that_is_taken_is_a_conflict(api: TpuApi, client: Client) -> None:
    client.create()
    with pytest.raises(exceptions.Conflict) as caught:
        client.create()
    assert reason(caught.value) == "RESOURCE_ALREADY_EXISTS"
    assert not isinstance(caught.value, exceptions.AlreadyExists)  # what 409 becomes over REST


def test_a_read_write_disk_is_attached_once(api: TpuApi, client: Client) -> None:
    disk = f"projects/p/zones/{ZONE}/disks/d"
    client.create("a", data_disks=[{"source_disk": disk}])
    api.advance(1)
    client.create("b", data_disks=[{"source_disk": disk}])
    client.create("c", data_disks=[{"source_disk": disk, "mode": "READ_ONLY"}])
    api.advance(UNTIL_ACTIVE_S)
    assert [client.state(name) for name in "abc"] == ["ACTIVE", "FAILED", "ACTIVE"]


# --- deleting ---


def test_delete_without_force_is_refused_while_nodes_exist(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    with pytest.raises(exceptions.BadRequest) as caught:
        client.delete(force=False)
    assert reason(caught.value) == "QUEUED_RESOURCE_HAS_NODES"
    client.google.delete_node(name=client.node_name())
    assert client.state() == "SUSPENDING"
    api.advance(30)
    assert (client.state(), client.get().state.state_initiator.name, client.nodes()) == ("SUSPENDED", "USER", {})
    client.delete(force=False)
    assert client.requests() == []


def test_delete_without_force_is_taken_while_waiting(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(2)
    client.delete(force=False)
    assert client.requests() == []


def test_a_second_delete_is_a_conflict_and_one_of_nothing_not_found(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    client.delete()
    with pytest.raises(exceptions.Conflict):
        client.delete()
    api.advance(20)
    with pytest.raises(exceptions.NotFound):
        client.delete()


def test_a_second_delete_may_also_join_the_first() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(deletes_join=True), START_S)) as api:
        client = Client(api.url)
        client.create()
        api.advance(UNTIL_ACTIVE_S)
        assert client.delete().operation.name == client.delete().operation.name
        client.google.transport.close()


def test_forgetting_the_operation_of_a_delete_does_not_stop_it(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    client.google.delete_operation({"name": client.delete().operation.name})
    api.advance(20)
    assert (client.requests(), client.nodes()) == ([], {})


def test_a_node_and_its_request_may_be_deleted_at_once(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    of_node = client.google.delete_node(name=client.node_name())
    client.delete()
    api.advance(20)
    assert (client.requests(), client.nodes(), client.operation(of_node).done) == ([], {}, True)


def test_deleting_ends_the_operation_of_the_create(api: TpuApi, client: Client) -> None:
    operation = client.create()
    client.delete()
    assert client.operation(operation).error.code == 1  # CANCELLED
