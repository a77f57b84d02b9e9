"""The TPU API emulator: late visibility, project numbers, and fields that Google's client does not know."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.json_format import ParseError

from infra.emulators.tpu_api import Behaviour, Cloud, Hidden, NodeState, TpuApi
from tests.unit.tpu_emulator.client import (
    PARENT,
    PROJECT_NUMBER,
    START_S,
    TIMINGS,
    UNTIL_ACTIVE_S,
    UNTIL_READY_S,
    ZONE,
    Client,
    control,
)

NUMBERED = f"projects/{PROJECT_NUMBER}/locations/{ZONE}"


def answer(api: TpuApi, name: str, version: str = "v2") -> dict[str, Any]:
    return requests.get(f"{api.url}/{version}/{name}", timeout=900).json()


# --- not there yet ---


@pytest.mark.parametrize("hidden", Hidden)
def test_a_new_request_may_be_not_found_for_a_while_though_its_id_is_taken(hidden: Hidden) -> None:
    behaviour = Behaviour(appears_after_s=10, hidden_from=hidden)
    with TpuApi(Cloud(TIMINGS, behaviour, START_S)) as api:
        client = Client(api.url)
        operation = client.create()
        api.advance(5)
        assert client.operation(operation).done
        with pytest.raises(exceptions.NotFound):
            client.get()
        with pytest.raises(exceptions.Conflict):
            client.create()
        assert client.requests() == ([] if hidden.includes(Hidden.LIST) else ["q"])
        if hidden is Hidden.DELETE:
            with pytest.raises(exceptions.NotFound):
                client.delete()
        api.advance(5)
        assert (client.state(), client.requests()) == ("PROVISIONING", ["q"])
        client.delete()
        client.google.transport.close()


def test_a_new_request_can_be_deleted_before_it_can_be_read() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(appears_after_s=10), START_S)) as api:
        client = Client(api.url)
        client.create()
        client.delete()
        api.advance(60)
        assert client.requests() == []
        client.google.transport.close()


# --- project numbers ---


def test_parents_and_a_nodes_request_have_the_projects_number_and_names_its_id(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    assert (client.get().name, client.get().tpu.node_spec[0].parent) == (f"{PARENT}/queuedResources/q", NUMBERED)
    assert (client.node().name, client.node().queued_resource) == (f"{PARENT}/nodes/q", f"{NUMBERED}/queuedResources/q")


def test_project_numbers_can_be_switched_off() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(project_numbers=False), START_S)) as api:
        client = Client(api.url)
        client.create()
        api.advance(UNTIL_ACTIVE_S)
        assert client.get().tpu.node_spec[0].parent == PARENT
        assert client.node().queued_resource == client.request()
        client.google.transport.close()


def test_calls_may_name_a_project_by_its_number(api: TpuApi, client: Client) -> None:
    client.create()
    numbered = Client(api.url, NUMBERED)
    assert (numbered.get().name, numbered.requests()) == (client.request(), ["q"])
    numbered.create("r")
    assert client.get("r").name == client.request("r")
    api.advance(UNTIL_ACTIVE_S)
    numbered.patch(tpu_v2.Node(name=numbered.node_name(), labels={"a": "b"}), ["labels"])
    assert dict(client.node().labels) == {"a": "b"}
    numbered.delete()
    api.advance(60)
    assert client.requests() == ["r"]
    numbered.google.transport.close()


# --- fields that the client does not know ---


def test_the_node_of_an_active_request_shows_what_was_seen_and_googles_client_reads_it(
    api: TpuApi, client: Client
) -> None:
    client.create()
    assert "useTpuVm" not in answer(api, client.request())["tpu"]["nodeSpec"][0]["node"]
    api.advance(UNTIL_ACTIVE_S)
    node = answer(api, client.request())["tpu"]["nodeSpec"][0]["node"]
    seen = {"bootDisk": {}, "schedulingConfig": {}, "shieldedInstanceConfig": {}, "useTpuVm": True}
    assert {key: node[key] for key in seen} == seen
    listed = answer(api, f"{PARENT}/queuedResources")["queuedResources"][0]
    assert listed["tpu"]["nodeSpec"][0]["node"]["useTpuVm"]
    assert (client.state(), client.requests()) == ("ACTIVE", ["q"])


def test_an_announced_maintenance_is_shown_and_googles_client_reads_it(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    control(api, "maintenance", {"node": client.node_name(), "in_s": 600, "takes_s": 60})
    maintenance = answer(api, client.node_name())["upcomingMaintenance"]
    assert maintenance == {
        "type": "SCHEDULED",
        "canReschedule": True,
        "windowStartTime": "2027-01-15T08:11:07Z",
        "windowEndTime": "2027-01-15T08:12:07Z",
        "latestWindowStartTime": "2027-01-15T08:11:07Z",
        "maintenanceStatus": "PENDING",
    }
    assert client.nodes() == {"q": "READY"}
    control(api, "restore", control(api, "snapshot", None, "GET"))
    assert answer(api, client.node_name())["upcomingMaintenance"] == maintenance
    control(api, "maintenance", {"node": client.node_name(), "in_s": None})
    assert "upcomingMaintenance" not in answer(api, client.node_name())


def test_googles_client_cannot_read_an_operation_whose_response_has_more_than_it_knows() -> None:
    """Its get_operation parses strictly, unlike its other calls. Whether the real service sends such is not known."""
    with TpuApi(Cloud(TIMINGS, Behaviour(extras_in_operations=True), START_S)) as api:
        client = Client(api.url)
        client.create()
        api.advance(UNTIL_ACTIVE_S)
        api.cloud.levers.set_maintenance(client.node_name(), 600)
        operation = client.patch(tpu_v2.Node(name=client.node_name(), labels={"a": "b"}), ["labels"])
        api.advance(2)
        with pytest.raises(ParseError, match="upcomingMaintenance"):
            client.operation(operation)
        client.google.transport.close()


# --- nodes ---


@pytest.mark.parametrize("state", [NodeState.REPAIRING, NodeState.UNKNOWN])
def test_a_node_is_repaired_or_unknown_under_an_active_request(api: TpuApi, client: Client, state: NodeState) -> None:
    client.create()
    api.advance(UNTIL_READY_S)
    control(api, "node", {"node": client.node_name(), "state": state, "health": "TIMEOUT"})
    assert (client.state(), client.nodes()) == ("ACTIVE", {"q": state.value})
    control(api, "node", {"node": client.node_name(), "state": "READY", "health": "UNHEALTHY_MAINTENANCE"})
    assert (client.state(), client.node().health.name) == ("ACTIVE", "UNHEALTHY_MAINTENANCE")
    with pytest.raises(ValueError, match="nearest: UNHEALTHY_MAINTENANCE"):
        api.cloud.levers.set_node_state(client.node_name(), NodeState.READY, "MAINTENANCE")


def test_an_update_with_the_mask_metadata_replaces_the_whole_map(api: TpuApi, client: Client) -> None:
    client.create(metadata={"startup-script": "a", "ssh-keys": "k"})
    api.advance(UNTIL_ACTIVE_S)
    client.patch(tpu_v2.Node(name=client.node_name(), metadata={"startup-script": "b"}), ["metadata"])
    assert dict(client.node().metadata) == {"startup-script": "b"}


def test_an_update_while_another_runs_is_aborted(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    change = tpu_v2.Node(name=client.node_name(), metadata={"a": "b"})
    first = client.patch(change, ["metadata"])
    with pytest.raises(exceptions.Conflict) as caught:
        client.patch(change, ["metadata"])
    body: Any = caught.value.response
    assert body.json()["error"]["status"] == "ABORTED"
    api.advance(2)
    assert client.operation(first).done
    client.patch(change, ["metadata"])


def test_updates_may_also_follow_each_other_at_once() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(updates_conflict=False), START_S)) as api:
        client = Client(api.url)
        client.create()
        api.advance(UNTIL_ACTIVE_S)
        for value in ("b", "c"):
            client.patch(tpu_v2.Node(name=client.node_name(), labels={"a": value}), ["labels"])
        assert dict(client.node().labels) == {"a": "c"}
        client.google.transport.close()


def test_hosts_publish_their_names_and_host_keys_beside_what_a_job_writes(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    names = client.ready(path="guestInspector/hostname")
    assert [name.rpartition("-")[2] for name in names] == [str(worker) for worker in range(8)]
    assert all(name.startswith("t1v-n-") for name in names)
    assert all(key.startswith("AAAA") for key in client.ready(path="hostkeys"))
    assert client.ready() == [""] * 8
    api.advance(UNTIL_READY_S)
    assert len({*client.ready()}) == 1
