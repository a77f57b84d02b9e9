"""The TPU API emulator: shapes of calls and answers, request ids, pages, operations."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import uuid
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.cloud.tpu_v2.services.tpu.transports.rest_base import _BaseTpuRestTransport
from google.longrunning import operations_pb2

from infra.emulators.tpu_api import Cloud, NodeState, RequestState, TpuApi
from infra.emulators.tpu_api.routes import ROUTES
from tests.emulators.instant import INSTANT
from tests.unit.tpu_emulator.client import PARENT, UNTIL_ACTIVE_S, ZONE, Client

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
    answer = requests.post(f"{api.url}/v2/{PARENT}/queuedResources?queuedResourceId=q", json=body, timeout=900)
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert complaint in answer.json()["error"]["message"]


def test_unknown_query_parameters_paths_and_bad_json_are_refused(api: TpuApi) -> None:
    parent = f"{api.url}/v2/{PARENT}"
    assert requests.get(f"{parent}/queuedResources?pageSized=1", timeout=900).status_code == 400
    assert requests.get(f"{parent}/queuedResources?pageSize=many", timeout=900).status_code == 400
    assert requests.get(f"{parent}/queues", timeout=900).status_code == 404
    assert requests.post(f"{parent}/queuedResources", data="{", timeout=900).status_code == 400


@pytest.mark.parametrize(("value", "status"), [("True", 200), ("T", 200), ("yes", 200), ("1", 200), ("maybe", 400)])
def test_a_query_says_true_as_protobuf_reads_it(api: TpuApi, client: Client, value: str, status: int) -> None:
    """gcloud's delete sends `force=True`."""
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    answer = requests.delete(f"{api.url}/v2/{client.request()}?force={value}", timeout=900)
    assert (answer.status_code, client.state()) == (status, "DELETING" if status == 200 else "ACTIVE")


def test_an_empty_worker_id_is_all_workers(api: TpuApi, client: Client) -> None:
    """gcloud's ssh asks so."""
    client.create()
    api.advance(UNTIL_ACTIVE_S)
    url = f"{api.url}/v2/{client.node_name()}:getGuestAttributes"
    assert len(requests.post(url, json={"workerIds": [""]}, timeout=900).json()["guestAttributes"]) == 8


def test_enums_are_numbers_when_asked_for_and_names_otherwise(api: TpuApi, client: Client) -> None:
    client.create()
    url = f"{api.url}/v2/{client.request()}"
    assert requests.get(url, timeout=900).json()["state"]["state"] == "CREATING"
    numeric = requests.get(url, params={"$alt": "json;enum-encoding=int"}, timeout=900).json()
    assert numeric["state"] == {"state": 1, "creatingData": {}}


def test_errors_have_status_reason_and_metadata(client: Client) -> None:
    with pytest.raises(exceptions.NotFound) as caught:
        client.get("nothing")
    assert (caught.value.reason, caught.value.domain) == ("RESOURCE_NOT_FOUND", "tpu.googleapis.com")
    assert (caught.value.metadata or {})["resource"] == client.request("nothing")


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
    with TpuApi(Cloud(INSTANT), page_size=1) as api:
        client = Client(api.url)
        names = [f"q{number:02}" for number in range(12)]
        for name in reversed(names):
            client.create(name, accelerator_type="v6e-1")
        api.calls.clear()
        assert client.requests() == names
        assert list(client.nodes()) == names
        assert len(api.calls_of("ListQueuedResources")) == 12
        assert len(list(client.google.list_runtime_versions(parent=PARENT))) > 3
        for token in ("x", "\N{LATIN SMALL LETTER E WITH ACUTE}"):
            with pytest.raises(exceptions.BadRequest):
                client.google.list_nodes(request={"parent": PARENT, "page_token": token})
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
        assert requests.get(url, timeout=900).status_code == 401
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=900).status_code == 200
