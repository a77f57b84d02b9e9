"""The TPU API emulator, through Google's own client over real HTTP."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import InvalidOperation  # what AnonymousCredentials make of a 401
from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.cloud.tpu_v2.services.tpu.transports.rest_base import _BaseTpuRestTransport
from google.longrunning import operations_pb2
from google.protobuf import field_mask_pb2, json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from infra.emulators.tpu_api import (
    HOST_READY,
    Behaviour,
    Cloud,
    FaultKind,
    GuestAttribute,
    NodeState,
    OperationEnds,
    QuotaRefusal,
    QuotaTier,
    RequestState,
    Timings,
    TpuApi,
)
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.messages import ApiError
from infra.emulators.tpu_api.routes import ROUTES
from infra.operate import emulate_cli

ZONE = "us-east5-b"
PARENT = f"projects/p/locations/{ZONE}"
START_S = 1_800_000_000.0
TIMINGS = Timings(admit_s=2, select_s=5, provision_s=60, boot_s=90, host_stagger_s=1, suspend_s=30, delete_s=20)
UNTIL_ACTIVE_S = 2 + 5 + 60
UNTIL_READY_S = UNTIL_ACTIVE_S + 90 + 7


class Client:
    """Google's client with the calls of these tests in one line each, without retries."""

    def __init__(self, url: str, parent: str = PARENT) -> None:
        options = {"api_endpoint": url}
        self.google = tpu_v2.TpuClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)
        self.parent = parent

    def request(self, name: str = "q") -> str:
        return f"{self.parent}/queuedResources/{name}"

    def node_name(self, name: str = "q") -> str:
        return f"{self.parent}/nodes/{name}"

    def create(self, name: str = "q", request_id: str = "", timeout: float = 10, **changes: Any) -> Any:
        return self.google.create_queued_resource(
            request=tpu_v2.CreateQueuedResourceRequest(
                parent=self.parent,
                queued_resource_id=name,
                queued_resource=wanted(name, self.parent, **changes),
                request_id=request_id,
            ),
            retry=None,
            timeout=timeout,
        )

    def get(self, name: str = "q") -> Any:
        return self.google.get_queued_resource(name=self.request(name), retry=None, timeout=10)

    def state(self, name: str = "q") -> str:
        return self.get(name).state.state.name

    def node(self, name: str = "q") -> Any:
        return self.google.get_node(name=self.node_name(name), retry=None, timeout=10)

    def nodes(self) -> dict[str, str]:
        found = self.google.list_nodes(parent=self.parent, retry=None, timeout=10)
        return {node.name.rpartition("/")[2]: node.state.name for node in found}

    def requests(self) -> list[str]:
        found = self.google.list_queued_resources(parent=self.parent, retry=None, timeout=10)
        return [one.name.rpartition("/")[2] for one in found]

    def delete(self, name: str = "q", force: bool = True, request_id: str = "") -> Any:
        return self.google.delete_queued_resource(
            request=tpu_v2.DeleteQueuedResourceRequest(name=self.request(name), force=force, request_id=request_id),
            retry=None,
            timeout=10,
        )

    def ready(self, name: str = "q", path: str = "slipway/status") -> list[str]:
        """What each host has published."""
        found = self.google.get_guest_attributes(
            request={"name": self.node_name(name), "query_path": path}, retry=None, timeout=10
        )
        return ["".join(item.value for item in host.query_value.items) for host in found.guest_attributes]

    def patch(self, node: Any, paths: list[str]) -> Any:
        mask = field_mask_pb2.FieldMask(paths=paths)
        return self.google.update_node(node=node, update_mask=mask, retry=None, timeout=10)

    def operation(self, operation: Any) -> Any:
        return self.google.get_operation({"name": operation.operation.name}, retry=None, timeout=10)


def wanted(name: str = "q", parent: str = PARENT, **changes: Any) -> Any:
    """A queued resource: one v6e-32, changed by node fields, `slices` and fields of the request."""
    of_request = {key: changes.pop(key) for key in list(changes) if key in tpu_v2.QueuedResource.meta.fields}
    slices = changes.pop("slices", 1)
    node = {"accelerator_type": "v6e-32", "runtime_version": "v2-alpha-tpuv6e", **changes}
    naming = {"node_id": name} if slices == 1 else {"multislice_params": {"node_count": slices}}
    return tpu_v2.QueuedResource({"tpu": {"node_spec": [{"parent": parent, "node": node, **naming}]}, **of_request})


@pytest.fixture
def api() -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS, now_s=START_S)) as api:
        yield api


@pytest.fixture
def client(api: TpuApi) -> Iterator[Client]:
    client = Client(api.url)
    yield client
    client.google.transport.close()


def reason(error: exceptions.GoogleAPICallError) -> str:
    return str(error.reason)


def control(api: TpuApi, path: str, values: Any = None, method: str = "POST") -> Any:
    answer = requests.request(method, f"{api.url}/_/{path}", json=values, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- shapes ---


def test_every_call_has_the_clients_own_path_and_body() -> None:
    theirs: set[tuple[str, str, str, str]] = set()
    for name, base in vars(_BaseTpuRestTransport).items():
        if name.startswith("_Base"):
            for option in base._get_http_options():
                theirs.add((name[5:], option["method"].upper(), option["uri"], option.get("body", "")))
    assert {(route.rpc, route.method, route.uri, route.body) for route in ROUTES} == theirs


def test_states_are_those_of_the_client() -> None:
    assert {str(state) for state in RequestState} == set(tpu_v2.QueuedResourceState.State.__members__) - {
        "STATE_UNSPECIFIED"
    }
    assert {str(state) for state in NodeState} <= set(tpu_v2.Node.State.__members__)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"tpu": {}, "speed": 11}, "speed"),
        ({"tpu": {"nodeSpec": [{"multiNodeParams": {"nodeCount": 2}}]}}, "multiNodeParams"),
        ({"tpu": "v6e"}, "tpu"),
    ],
)
def test_unknown_or_misshapen_fields_are_refused(api: TpuApi, body: Any, complaint: str) -> None:
    answer = requests.post(f"{api.url}/v2/{PARENT}/queuedResources?queuedResourceId=q", json=body, timeout=10)
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert complaint in answer.json()["error"]["message"]


def test_unknown_query_parameters_paths_and_bad_json_are_refused(api: TpuApi) -> None:
    parent = f"{api.url}/v2/{PARENT}"
    assert requests.get(f"{parent}/queuedResources?pageSized=1", timeout=10).status_code == 400
    assert requests.get(f"{parent}/queuedResources?pageSize=many", timeout=10).status_code == 400
    assert requests.get(f"{parent}/queues", timeout=10).status_code == 404
    assert requests.post(f"{parent}/queuedResources", data="{", timeout=10).status_code == 400


def test_enums_are_numbers_when_asked_for_and_names_otherwise(api: TpuApi, client: Client) -> None:
    client.create()
    url = f"{api.url}/v2/{client.request()}"
    assert requests.get(url, timeout=10).json()["state"]["state"] == "CREATING"
    numeric = requests.get(url, params={"$alt": "json;enum-encoding=int"}, timeout=10).json()
    assert numeric["state"] == {"state": 1, "creatingData": {}}


def test_errors_have_status_reason_and_metadata(client: Client) -> None:
    with pytest.raises(exceptions.NotFound) as caught:
        client.get("nothing")
    assert (caught.value.reason, caught.value.domain) == ("RESOURCE_NOT_FOUND", "tpu.googleapis.com")
    assert (caught.value.metadata or {})["resource"] == client.request("nothing")


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
    assert deletion.result(timeout=5) is not None  # google.protobuf.Empty


def test_the_operation_of_a_create_holds_the_request(api: TpuApi, client: Client) -> None:
    operation = client.create()
    api.advance(2)
    assert operation.result(timeout=5).name == client.request()
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
    assert (node.scheduling_config.spot, node.queued_resource, node.multislice_node) == (True, client.request(), False)


def test_multislice_makes_numbered_nodes_all_or_none(api: TpuApi, client: Client) -> None:
    api.cloud.set_capacity(ZONE, "v6e", 3 * 32 - 1)
    client.create(slices=3)
    api.advance(3600)
    assert (client.state(), client.nodes()) == ("WAITING_FOR_RESOURCES", {})
    api.cloud.set_capacity(ZONE, "v6e", 3 * 32)
    api.advance(60)
    assert client.nodes() == {"q-0": "READY", "q-1": "READY", "q-2": "READY"}
    assert client.node("q-2").multislice_node


def test_guaranteed_and_a_named_reservation(api: TpuApi, client: Client) -> None:
    reservation = f"{PARENT}/reservations/r"
    with pytest.raises(exceptions.NotFound):
        client.create(guaranteed={}, reservation_name=reservation)
    api.cloud.set_reservation(reservation, "v6e", 32)
    api.cloud.stockout(ZONE, "v6e")
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


# --- what there is not enough of ---


def test_stockout_keeps_requests_waiting_and_ends(api: TpuApi, client: Client) -> None:
    api.cloud.stockout(ZONE, "v6e-32")
    client.create()
    client.create("small", accelerator_type="v6e-8")
    api.advance(86_400)
    assert (client.state(), client.state("small")) == ("WAITING_FOR_RESOURCES", "ACTIVE")
    api.cloud.set_capacity(ZONE, "v6e-32", None)
    api.advance(60)
    assert client.state() == "ACTIVE"


def test_a_node_without_a_queue_fails_at_once_in_a_stockout(api: TpuApi, client: Client) -> None:
    api.cloud.stockout(ZONE, "v6e")
    node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
    operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
    with pytest.raises(exceptions.ResourceExhausted, match="no more capacity in the zone"):
        operation.result(timeout=5)
    assert client.nodes() == {}


def test_a_node_without_a_queue_starts_stops_and_goes(api: TpuApi, client: Client) -> None:
    node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
    operation = client.google.create_node(parent=PARENT, node_id="n", node=node)
    api.advance(60)
    made: Any = operation.result(timeout=5)
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
    deletion.result(timeout=5)


def test_quota_is_held_until_an_inactive_request_is_deleted(api: TpuApi, client: Client) -> None:
    api.cloud.set_quota("p", ZONE, "v6e", 32, QuotaTier.SPOT)
    client.create("a", spot={})
    api.advance(UNTIL_ACTIVE_S)
    api.cloud.preempt(client.request("a"))
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
    api.cloud.set_quota("p", "us-east5", "v5p", 32)  # TensorCores
    other = Client(api.url, "projects/p/locations/us-east5-a")
    other.create("a", accelerator_type="v5p-16", runtime_version="v2-alpha-tpuv5")
    api.cloud.set_quota("other", "us-east5", "v5p", 0)
    with pytest.raises(exceptions.TooManyRequests, match=r"PerRegion.*Limit: 32 in region us-east5"):
        other.create("b", accelerator_type="v5p-32", runtime_version="v2-alpha-tpuv5")
    other.create("b", accelerator_type="v5p-16", runtime_version="v2-alpha-tpuv5")
    other.google.transport.close()


@pytest.mark.parametrize("refusal", [QuotaRefusal.IN_OPERATION, QuotaRefusal.FAILED_REQUEST])
def test_quota_may_also_be_refused_later(refusal: QuotaRefusal) -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(quota_refusal=refusal), START_S)) as api:
        api.cloud.set_quota("p", ZONE, "v6e", 0)
        client = Client(api.url)
        operation = client.create()
        api.advance(2)
        assert client.operation(operation).error.code == 8  # RESOURCE_EXHAUSTED
        assert client.requests() == ([] if refusal is QuotaRefusal.IN_OPERATION else ["q"])
        if refusal is QuotaRefusal.FAILED_REQUEST:
            assert "Quota limit" in client.get().state.failed_data.error.message
        client.google.transport.close()


# --- time ---


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
    api.cloud.stockout(ZONE, "v6e")
    client.create(queueing_policy=policy)
    api.advance(599)
    assert client.state() == "WAITING_FOR_RESOURCES"
    api.advance(1)
    state = client.get().state
    assert (state.state.name, state.failed_data.error.code) == ("FAILED", 4)
    api.cloud.set_capacity(ZONE, "v6e", None)
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
            cloud.set_capacity(ZONE, "v6e", 32)
            client.create("a", spot={})
            client.create("b", queueing_policy={"valid_until_duration": {"seconds": 300}})
            while cloud.now_s < START_S + 400:
                api.advance(step)
            ends.append([(round(event.time_s, 3), event.target, event.text) for event in cloud.events])
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
        deadline = time.monotonic() + 5
        while client.state() != "ACTIVE" and time.monotonic() < deadline:
            pass
        assert client.state() == "ACTIVE"
        client.google.transport.close()


def test_the_clouds_clock_may_differ_from_ours(client: Client, api: TpuApi) -> None:
    client.create()
    assert client.get().create_time.timestamp() == START_S
    answer = requests.get(f"{api.url}/v2/{PARENT}/nodes", timeout=10)
    assert answer.headers["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT"


def test_instant_timings_make_everything_within_the_call() -> None:
    with TpuApi(Cloud(Timings.instant())) as api:
        client = Client(api.url)
        client.create()
        assert (client.state(), client.ready()) == ("ACTIVE", [HOST_READY.value] * 8)
        client.delete()
        assert client.requests() == []
        client.google.transport.close()


# --- losing what one had ---


def test_preemption_suspends_the_request_and_takes_its_nodes(api: TpuApi, client: Client) -> None:
    client.create(spot={}, slices=2)
    api.advance(UNTIL_READY_S)
    api.cloud.preempt(client.node_name("q-1"))
    assert (client.state(), client.nodes()) == ("SUSPENDING", {"q-0": "DELETING", "q-1": "PREEMPTED"})
    assert client.ready("q-0") == [""] * 8
    api.advance(30)
    state = client.get().state
    assert (state.state.name, state.state_initiator.name, client.nodes()) == ("SUSPENDED", "SERVICE", {})
    api.advance(86_400)
    assert client.state() == "SUSPENDED"
    client.delete(force=False)
    assert client.requests() == []


def test_preempted_nodes_may_stay_listed() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(preempted_nodes_stay=True), START_S)) as api:
        client = Client(api.url)
        client.create(spot={})
        api.advance(UNTIL_READY_S)
        api.cloud.preempt(client.request())
        api.advance(30)
        assert (client.state(), client.nodes()) == ("SUSPENDED", {"q": "PREEMPTED"})
        client.delete()
        api.advance(20)
        assert (client.requests(), client.nodes()) == ([], {})
        client.google.transport.close()


def test_only_spot_is_preempted(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    with pytest.raises(ValueError, match="only spot is preempted"):
        api.cloud.preempt(client.request())
    with pytest.raises(ValueError, match="nothing to preempt"):
        api.cloud.preempt(client.request("nothing"))


def test_a_request_may_fail_late(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S - 1)
    api.cloud.fail_request(client.request(), "The network was not found.")
    assert (client.state(), client.nodes()) == ("FAILED", {})
    assert client.get().state.failed_data.error.message == "The network was not found."


def test_hosts_report_by_script_too() -> None:
    with TpuApi(Cloud(Timings(0, 0, 0, boot_s=None))) as api:
        client = Client(api.url)
        client.create()
        name = client.node_name()
        assert client.ready() == [""] * 8
        api.cloud.set_host_ready(name, 3)
        assert client.ready() == ["", "", "", HOST_READY.value, "", "", "", ""]
        api.cloud.set_host_ready(name)
        api.cloud.set_host_ready(name, 3, ready=False)
        assert client.ready().count("") == 1
        api.cloud.set_guest_attribute(name, 0, GuestAttribute("slipway", "status", "failed"))
        api.cloud.set_guest_attribute(name, 0, GuestAttribute("other", "x", "y"))
        assert client.ready()[0] == "failed"
        assert client.ready(path="other/")[0] == "y"
        assert client.ready(path="")[0] == "failedy"
        one = client.google.get_guest_attributes(request={"name": name, "worker_ids": ["7", "0"]})
        assert [len(host.query_value.items) for host in one.guest_attributes] == [1, 2]
        with pytest.raises(exceptions.BadRequest):
            client.google.get_guest_attributes(request={"name": name, "worker_ids": ["8"]})
        api.cloud.set_node_state(name, NodeState.REPAIRING, "TIMEOUT", "a host does not answer")
        assert (client.node().health.name, client.node().health_description) == ("TIMEOUT", "a host does not answer")
        client.google.transport.close()


def test_hosts_that_are_silent_may_also_be_not_found() -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(silent_hosts_are_404=True), START_S)) as api:
        client = Client(api.url)
        client.create()
        api.advance(UNTIL_ACTIVE_S)
        with pytest.raises(exceptions.NotFound):
            client.ready()
        api.advance(91)
        assert client.ready().count("") == 6
        client.google.transport.close()


def test_reset_restarts_the_hosts(api: TpuApi, client: Client) -> None:
    client.create()
    with pytest.raises(exceptions.BadRequest):
        client.google.reset_queued_resource(request={"name": client.request()})
    api.advance(UNTIL_READY_S)
    client.google.reset_queued_resource(request={"name": client.request()})
    assert client.nodes() == {"q": "RESTARTING"}
    assert client.ready() == [""] * 8
    api.advance(2 + 90 + 7)
    assert client.ready() == [HOST_READY.value] * 8


@pytest.mark.parametrize("ends", OperationEnds)
def test_the_operation_may_end_with_acceptance_or_with_the_nodes(ends: OperationEnds) -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(create_ends=ends, says_accepted=True), START_S)) as api:
        client = Client(api.url)
        operation = client.create()
        api.advance(2)
        assert client.state() == "ACCEPTED"
        assert client.operation(operation).done is (ends is OperationEnds.ACCEPTED)
        api.advance(UNTIL_ACTIVE_S)
        assert client.operation(operation).done
        client.google.transport.close()


# --- request ids, pages, operations ---


def test_the_same_request_id_is_the_same_call(api: TpuApi, client: Client) -> None:
    request_id = str(uuid.uuid4())
    first, second = client.create(request_id=request_id), client.create(request_id=request_id)
    assert first.operation.name == second.operation.name
    assert client.requests() == ["q"]
    with pytest.raises(exceptions.BadRequest):
        client.create("other", request_id=request_id)
    with pytest.raises(exceptions.BadRequest):
        client.create("other", request_id="not a uuid")
    deletion = str(uuid.uuid4())
    assert client.delete(request_id=deletion).operation.name == client.delete(request_id=deletion).operation.name


def test_a_request_id_is_remembered_beyond_the_end_of_what_it_made(api: TpuApi, client: Client) -> None:
    request_id = str(uuid.uuid4())
    client.create(request_id=request_id)
    client.delete()
    client.create(request_id=request_id)
    assert client.requests() == []  # the answer was the old operation
    api.advance(3601)
    client.create(request_id=request_id)
    assert client.requests() == ["q"]


def test_pages_of_one(client: Client) -> None:
    with TpuApi(Cloud(Timings.instant()), page_size=1) as api:
        client = Client(api.url)
        names = [f"q{number:02}" for number in range(12)]
        for name in reversed(names):
            client.create(name, accelerator_type="v6e-1")
        api.calls.clear()
        assert client.requests() == names
        assert list(client.nodes()) == names
        assert len(api.calls_of("ListQueuedResources")) == 12
        assert len(list(client.google.list_runtime_versions(parent=PARENT))) > 3
        with pytest.raises(exceptions.BadRequest):
            client.google.list_nodes(request={"parent": PARENT, "page_token": "x"})
        client.google.transport.close()


def test_a_page_is_as_large_as_asked_for_and_stable_while_things_go(api: TpuApi, client: Client) -> None:
    for number in range(5):
        client.create(f"q{number}", accelerator_type="v6e-1")
    pages = client.google.list_queued_resources(request={"parent": PARENT, "page_size": 2}).pages
    assert [one.name[-2:] for one in next(pages).queued_resources] == ["q0", "q1"]
    client.delete("q1")
    assert [one.name[-2:] for one in next(pages).queued_resources] == ["q2", "q3"]


def test_a_list_of_all_zones_names_those_it_cannot_reach(api: TpuApi, client: Client) -> None:
    other = Client(api.url, "projects/p/locations/us-east5-a")
    client.create("a", accelerator_type="v6e-1")
    other.create("b", accelerator_type="v6e-1")
    every = Client(api.url, "projects/p/locations/-")
    assert every.requests() == ["b", "a"]
    api.service.unreachable.add("us-east5-a")
    page = next(every.google.list_queued_resources(parent=every.parent).pages)
    assert [one.name for one in page.queued_resources] == [client.request("a")]
    assert list(page.unreachable) == ["projects/p/locations/us-east5-a"]
    for one in (other, every):
        one.google.transport.close()


def test_what_there_is_can_be_listed(client: Client) -> None:
    kinds = {kind.type_: kind for kind in client.google.list_accelerator_types(parent=PARENT)}
    assert kinds["v6e-32"].accelerator_configs[0].topology == "4x8"
    assert client.google.get_accelerator_type(name=kinds["v6e-32"].name) == kinds["v6e-32"]
    versions = [one.version for one in client.google.list_runtime_versions(parent=PARENT)]
    assert "v2-alpha-tpuv6e" in versions
    zones = client.google.list_locations(locations_pb2.ListLocationsRequest(name="projects/p")).locations
    assert ZONE in [zone.location_id for zone in zones]
    assert client.google.get_location({"name": PARENT}).location_id == ZONE
    identity = client.google.generate_service_identity(request={"parent": PARENT}).identity
    assert identity.email.endswith(".gserviceaccount.com")


def test_operations_are_listed_cancelled_and_forgotten(client: Client) -> None:
    name = client.create().operation.name
    listed = client.google.list_operations(operations_pb2.ListOperationsRequest(name=PARENT)).operations
    assert [one.name for one in listed] == [name]
    client.google.cancel_operation({"name": name})
    metadata = tpu_v2.OperationMetadata()
    client.google.get_operation({"name": name}).metadata.Unpack(tpu_v2.OperationMetadata.pb(metadata))
    assert metadata.cancel_requested
    client.google.delete_operation({"name": name})
    with pytest.raises(exceptions.NotFound):
        client.google.get_operation({"name": name})


def test_a_token_is_asked_for() -> None:
    token = "of-a-vm"
    with TpuApi(token=token) as api:
        url = f"{api.url}/v2/{PARENT}/nodes"
        assert requests.get(url, timeout=10).status_code == 401
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10).status_code == 200


# --- faults ---

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
    deadline = time.monotonic() + 5
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
        operation.result(timeout=5)
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
    assert len(api.cloud.requests) == 32
    assert sorted(call.number for call in api.calls) == list(range(1, 65))


def test_what_has_ended_answers_nobody(client: Client) -> None:
    with TpuApi() as api:
        session = requests.Session()
        assert session.get(f"{api.url}/v2/{PARENT}/nodes", timeout=5).status_code == 200
    with pytest.raises(requests.ConnectionError):
        session.get(f"{api.url}/v2/{PARENT}/nodes", timeout=5)
    session.close()


def test_an_error_of_the_emulator_fails_the_test_that_meets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), TpuApi() as api:
        monkeypatch.setattr(api.cloud, "advance", broken)
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{api.url}/v2/{PARENT}/nodes", timeout=5)
    assert "ZeroDivisionError" in capsys.readouterr().err


# --- whatever happens ---


def check_accounts(cloud: Cloud) -> None:
    for limit in cloud.pools.capacities:
        used = sum(claim.chips for claim in cloud.capacity_claims() if limit.concerns(claim))
        assert used <= max(limit.chips, 64), "more was given out than there ever was"
    for limit in cloud.pools.quotas:
        assert sum(claim.quota_units for claim in cloud.quota_claims() if limit.concerns(claim)) <= limit.units
    for node in cloud.nodes.values():
        assert node.request in cloud.requests, "a node outlived its request"
    for request in cloud.requests.values():
        names = {name for name in request.node_names if name in cloud.nodes}
        if request.state in (RequestState.ACTIVE, RequestState.PROVISIONING):
            assert len(names) == len(request.node_names)
        if request.state in (RequestState.WAITING_FOR_RESOURCES, RequestState.FAILED, RequestState.SUSPENDED):
            assert not names


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["create", "create spot", "delete", "preempt", "delete node", "stockout", "room", "time"]),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_accounts_and_nodes_agree_whatever_happens(steps: list[tuple[str, int]]) -> None:
    cloud = Cloud(TIMINGS, now_s=START_S)
    cloud.set_capacity(ZONE, "v6e", 64)
    cloud.set_quota("p", ZONE, "v6e", 96, QuotaTier.SPOT)
    place = Place("p", ZONE)
    for what, number in steps:
        request, node = f"{PARENT}/queuedResources/q{number}", f"{PARENT}/nodes/q{number}-1"
        with contextlib.suppress(ApiError, ValueError):
            if what.startswith("create"):
                spot: dict[str, Any] = {"spot": {}} if what.endswith("spot") else {}
                message = wanted(slices=2, accelerator_type="v6e-16", **spot)
                cloud.create_request(place, f"q{number}", tpu_v2.QueuedResource.pb(message))
            elif what == "delete":
                cloud.delete_request(request, force=True)
            elif what == "preempt":
                cloud.preempt(request)
            elif what == "delete node":
                cloud.delete_node(node)
            elif what == "time":
                cloud.advance((1, 10, 60, 600)[number])
            else:
                cloud.set_capacity(ZONE, "v6e", 0 if what == "stockout" else 64)
        cloud.settle()
        check_accounts(cloud)
        kept = json.loads(json.dumps(cloud.snapshot()))
        cloud.restore(kept)
        assert json.loads(json.dumps(cloud.snapshot())) == kept
    for name in list(cloud.requests):
        with contextlib.suppress(ApiError):
            cloud.delete_request(name, force=True)
    cloud.advance(3600)
    assert not cloud.requests
    assert not cloud.nodes
    assert all(operation.is_done(cloud.now_s) for operation in cloud.operations.values())


# --- by hand ---


def test_scripts_steer_it_over_http(api: TpuApi, client: Client) -> None:
    control(api, "stockout", {"zone": ZONE, "accelerator": "v6e"})
    client.create(spot={}, labels={"stack": "s"})
    control(api, "advance", {"seconds": 100})
    assert client.state() == "WAITING_FOR_RESOURCES"
    control(api, "capacity", {"zone": ZONE, "accelerator": "v6e", "chips": 64})
    control(api, "quota", {"project": "p", "place": ZONE, "family": "v6e", "units": 128, "tier": "spot"})
    control(api, "reservation", {"name": f"{PARENT}/reservations/r", "family": "v6e", "chips": 8})
    control(api, "advance", {"seconds": 60})
    control(api, "ready", {"node": client.node_name(), "worker": 2})
    control(api, "attribute", {"node": client.node_name(), "worker": 0, "namespace": "a", "key": "b", "value": "c"})
    state = control(api, "state", method="GET")
    (request,), (node,) = state["requests"], state["nodes"]
    assert (request["state"], request["hosts_ready"], request["hosts"]) == ("ACTIVE", 1, 8)
    assert (request["labels"], node["hosts"][1:4]) == ({"stack": "s"}, [False, True, False])
    assert state["capacities"] == [{"zone": ZONE, "accelerator": "v6e", "used": 32, "chips": 64}]
    assert (state["quotas"][0]["used"], state["quotas"][0]["unit"]) == (32, "chips")
    control(api, "node", {"node": client.node_name(), "state": "REPAIRING", "why": "w"})
    assert client.nodes() == {"q": "REPAIRING"}
    control(api, "preempt", {"name": client.request()})
    assert client.state() == "SUSPENDING"
    control(api, "fail", {"name": client.request(), "message": "m"})
    assert client.state() == "FAILED"
    assert {"CreateQueuedResource", "GetQueuedResource"} <= {call["rpc"] for call in control(api, "calls", None, "GET")}
    control(api, "calls", method="DELETE")
    assert control(api, "calls", None, "GET") == []


def test_faults_are_added_and_forgotten_over_http(api: TpuApi, client: Client) -> None:
    control(api, "faults", {"kind": "UNAVAILABLE", "rpc": "CreateQueuedResource", "times": 2})
    with pytest.raises(exceptions.ServiceUnavailable):
        client.create()
    assert [fault["happened"] for fault in control(api, "faults", None, "GET")] == [1]
    control(api, "faults", method="DELETE")
    client.create()


@pytest.mark.parametrize(
    ("path", "values", "complaint"),
    [
        ("faults", {"kind": "BROKEN"}, "kinds: TOO_MANY_REQUESTS"),
        ("preempt", {"name": "nothing"}, "nothing to preempt"),
        ("capacity", {"zone": ZONE, "accelerator": "v6f", "chips": 1}, "v6f"),
        ("capacity", {"zone": "us-east5-x", "accelerator": "v6e", "chips": 1}, "nearest: us-east5-"),
        ("quota", {"project": "p", "place": "us-east", "family": "v6e", "units": 1}, "nearest: us-east"),
        ("reservation", {"name": "r", "family": "v6e", "chips": 1}, "projects/<project>/locations"),
        ("advance", {}, "seconds"),
        ("nowhere", {}, "POST /_/advance"),
    ],
)
def test_a_wrong_script_is_told_what_there_is(api: TpuApi, path: str, values: Any, complaint: str) -> None:
    answer = requests.post(f"{api.url}/_/{path}", json=values, timeout=10)
    assert answer.status_code in (400, 404)
    assert complaint in answer.json()["error"]


def test_a_snapshot_brings_everything_back(api: TpuApi, client: Client) -> None:
    api.cloud.set_quota("p", ZONE, "v6e", 64, QuotaTier.SPOT)
    api.cloud.set_reservation(f"{PARENT}/reservations/r", "v6e", 8)
    client.create(spot={}, slices=2, labels={"a": "b"}, request_id=str(uuid.uuid4()))
    api.advance(UNTIL_READY_S)
    kept = json.loads(json.dumps(control(api, "snapshot", None, "GET")))
    before = (client.get(), client.node("q-1"), client.ready("q-0"))
    api.cloud.preempt(client.request())
    api.advance(3600)
    control(api, "restore", kept)
    assert (client.get(), client.node("q-1"), client.ready("q-0")) == before
    assert json.loads(json.dumps(api.cloud.snapshot())) == kept


def test_a_state_file_outlives_the_emulator(tmp_path: Path) -> None:
    file = tmp_path / "cloud.json"
    for expected in (["q"], ["q", "r"]):
        with TpuApi(Cloud(TIMINGS), state=file) as api:
            client = Client(api.url)
            client.create("r" if expected[1:] else "q", accelerator_type="v6e-1")
            assert client.requests() == expected
            client.google.transport.close()


def test_the_command_serves_until_ctrl_c_and_keeps_its_state(tmp_path: Path) -> None:
    file = tmp_path / "cloud.json"
    command = [sys.executable, "-c", "from infra.operate.cli import main; main()", "emulate", "tpu"]
    command += ["--port", "0", "--speed", "0", "--state", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = re.findall(r"http://127.0.0.1:\d+", process.stdout.readline())[0]
        exported = process.stdout.readline().strip()
        assert exported.startswith(f"in another shell: export SLIPWAY_TPU_ENDPOINT={url} STORAGE_EMULATOR_HOST=http://")
        client = Client(url)
        client.create()
        assert client.state() == "CREATING"
        client.google.transport.close()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().endswith(f"ended; its state is in {file}, its buckets in {file}.buckets\n")
        assert process.wait(timeout=10) == 0
    assert [request["name"] for request in json.loads(file.read_text())["requests"]] == [f"{PARENT}/queuedResources/q"]


def test_the_command_says_what_is_wrong_with_port_and_state(tmp_path: Path) -> None:
    (tmp_path / "cloud.json").write_text("{}")
    runner = CliRunner()
    with TpuApi() as api:
        taken = runner.invoke(emulate_cli.app, ["tpu", "--port", str(api.port)])
        assert (taken.exit_code, "give another one with --port" in taken.output) == (2, True)
    other = runner.invoke(emulate_cli.app, ["tpu", "--port", "0", "--state", str(tmp_path / "cloud.json")])
    assert (other.exit_code, "is not a state of this emulator" in other.output) == (2, True)
    nowhere = runner.invoke(emulate_cli.app, ["tpu", "--port", "0", "--state", str(tmp_path / "no" / "cloud.json")])
    assert (nowhere.exit_code, "give a file in a directory that is there" in nowhere.output) == (2, True)


def test_the_page_is_one_file_that_fetches_nothing_else(api: TpuApi) -> None:
    answer = requests.get(f"{api.url}/", timeout=10)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.findall(r"""(?:src|href)=|@import|url\(|https?://""", answer.text)
    assert "`/_/${path}`" in answer.text


def test_the_page_is_not_told_metadata_or_bodies(api: TpuApi, client: Client) -> None:
    client.create(metadata={"startup-script": "WORD-OF-THE-SCRIPT"})
    api.advance(UNTIL_READY_S)
    assert "WORD-OF-THE-SCRIPT" not in json.dumps(control(api, "state", None, "GET"))
    assert "WORD-OF-THE-SCRIPT" in json.dumps(api.calls[0].body)
