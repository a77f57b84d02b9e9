"""The TPU API emulator: what is refused for its shape, and for the state of what it is about, as the service would."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import tpu_v2

from infra.emulators.tpu_api import FaultKind, TpuApi
from tests.unit.tpu_emulator.client import PARENT, PROJECT_NUMBER, UNTIL_ACTIVE_S, ZONE, Client

NODE = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
SPEC = {"parent": PARENT, "nodeId": "q", "node": NODE}
NUMBERED = f"projects/{PROJECT_NUMBER}/locations/{ZONE}"


def single(**changes: Any) -> Any:
    return tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e", **changes)


# --- shapes of a request ---


@pytest.mark.parametrize(
    ("tpu", "field", "why"),
    [
        ({}, "queued_resource.tpu.node_spec", "it is required"),
        ({"nodeSpec": [SPEC, SPEC]}, "queued_resource.tpu.node_spec", "several specs are not supported"),
        (
            {"nodeSpec": [SPEC | {"parent": "projects/p/locations/us-east5-a"}]},
            "node_spec.parent",
            f"'projects/p/locations/us-east5-a' is not the parent of the request, '{PARENT}'",
        ),
        ({"nodeSpec": [{"parent": PARENT, "node": NODE}]}, "node_spec", "node_id or multislice_params is required"),
        ({"nodeSpec": [SPEC | {"nodeId": "a b"}]}, "node_spec.node_id", "'a b' does not match"),
        ({"nodeSpec": ["v6e-8"]}, "", "Protocol message Tpu"),
        ({"nodeSpec": [SPEC | {"node": "v6e-8"}]}, "", "Protocol message"),
    ],
)
@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_a_request_without_the_nodes_it_is_for_is_refused(
    api: TpuApi, client: Client, version: str, tpu: Any, field: str, why: str
) -> None:
    url = f"{api.url}/{version}/{PARENT}/queuedResources?queuedResourceId=q"
    answer = requests.post(url, json={"tpu": tpu}, timeout=900)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    if field:
        assert error["message"].startswith(f"Invalid value for field '{field}': {why}")
        assert error["details"][0]["metadata"]["field"] == field
    assert client.requests() == []


def test_an_id_is_of_the_services_characters(client: Client) -> None:
    with pytest.raises(exceptions.BadRequest, match=re.escape("'a b' does not match ^[A-Za-z0-9_.~+%-]+$")):
        client.create("a b")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"labels": {f"l{number}": "" for number in range(65)}}, "'node.labels': at most 64"),
        ({"labels": {"Team": "a"}}, "'node.labels': Team=a is not a label"),
        ({"description": "d" * 513}, "'node.description': at most 512 characters"),
        ({"tags": ["No"]}, "'node.tags': 'No' is not a network tag"),
        ({"metadata": {"startup-script": "#" * (256 * 1024 + 1)}}, "'node.metadata': a value has at most 262144"),
    ],
)
def test_what_a_patch_may_change_has_the_limits_of_a_create(client: Client, changes: Any, why: str) -> None:
    client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    with pytest.raises(exceptions.BadRequest, match=re.escape(why)):
        client.create(**changes)
    with pytest.raises(exceptions.BadRequest, match=re.escape(why)):
        client.patch(tpu_v2.Node(name=client.node_name("n"), **changes), list(changes))
    assert client.node("n").description == ""


def test_a_project_may_be_named_by_its_number(api: TpuApi, client: Client) -> None:
    """A spec's parent may have it where the call has the id; a refusal has the number either way."""
    spec = {"nodeSpec": [SPEC | {"parent": NUMBERED}]}
    url = f"{api.url}/v2/{PARENT}/queuedResources?queuedResourceId=q"
    assert requests.post(url, json={"tpu": spec}, timeout=900).status_code == 200
    subjects: list[str] = []
    for project in ("p", PROJECT_NUMBER):
        api.cloud.levers.set_quota(project, ZONE, "v6e", 0)
        other = Client(api.url, f"projects/{project}/locations/{ZONE}")
        with pytest.raises(exceptions.TooManyRequests) as caught:
            other.create("other")
        subjects.append(caught.value.details[0]["violations"][0]["subject"])
        other.google.transport.close()
    assert subjects == [f"project:{PROJECT_NUMBER}"] * 2


def test_a_request_without_an_id_gets_one(api: TpuApi, client: Client) -> None:
    answer = requests.post(f"{api.url}/v2/{PARENT}/queuedResources", json={"tpu": {"nodeSpec": [SPEC]}}, timeout=900)
    assert answer.status_code == 200, answer.text
    (name,) = client.requests()
    api.advance(UNTIL_ACTIVE_S)
    assert (client.state(name), client.nodes()) == ("ACTIVE", {"q": "READY"})


# --- lists ---


@pytest.mark.parametrize(
    ("query", "error", "why"),
    [
        ("filter=state:ACTIVE", exceptions.MethodNotImplemented, "knows neither filters nor orders"),
        ("pageSize=-1", exceptions.BadRequest, "'page_size': it is negative"),
    ],
)
def test_a_list_is_not_asked_for_what_the_emulator_would_guess(
    api: TpuApi, query: str, error: type[exceptions.GoogleAPICallError], why: str
) -> None:
    collection = "acceleratorTypes" if query.startswith("filter") else "nodes"
    answer = requests.get(f"{api.url}/v2/{PARENT}/{collection}?{query}", timeout=900)
    assert (answer.status_code, why in answer.json()["error"]["message"]) == (error.code, True), answer.text


def test_a_zone_that_cannot_be_reached_answers_503_to_its_own_list(api: TpuApi, client: Client) -> None:
    client.create(accelerator_type="v6e-1")
    api.service.unreachable.add(ZONE)
    with pytest.raises(exceptions.ServiceUnavailable, match="Zone us-east5-b is currently unreachable"):
        client.requests()
    api.service.unreachable.clear()
    assert client.requests() == ["q"]


def test_an_accelerator_type_or_a_runtime_version_that_is_not_there_is_a_404(client: Client) -> None:
    for ask, name in (
        (client.google.get_accelerator_type, f"{PARENT}/acceleratorTypes/v6e-33"),
        (client.google.get_runtime_version, f"{PARENT}/runtimeVersions/v1"),
    ):
        with pytest.raises(exceptions.NotFound, match=re.escape(f"Resource '{name}' was not found.")) as caught:
            ask(name=name, retry=None)
        assert (caught.value.metadata or {})["resource"] == name


# --- nodes outside the queue ---


def test_a_node_of_a_name_that_is_taken_is_refused_until_it_is_gone(api: TpuApi, client: Client) -> None:
    client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    with pytest.raises(exceptions.Conflict, match=f"Resource '{PARENT}/nodes/n' already exists"):
        client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    api.advance(60)
    client.google.delete_node(name=client.node_name("n"), retry=None)
    with pytest.raises(exceptions.Conflict, match="is already being deleted"):
        client.google.delete_node(name=client.node_name("n"), retry=None)
    with pytest.raises(exceptions.BadRequest, match="is being deleted") as caught:
        client.patch(tpu_v2.Node(name=client.node_name("n"), description="d"), ["description"])
    assert caught.value.reason == "INVALID_STATE"
    api.advance(20)
    client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    assert client.nodes() == {"n": "CREATING"}


def test_a_node_counts_against_the_quota_as_a_request_does(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_quota("p", ZONE, "v6e", 4)
    with pytest.raises(exceptions.TooManyRequests, match="TPUV6EPerProjectPerZoneForTPUAPI"):
        client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    assert client.nodes() == {}


def test_only_a_single_host_outside_the_queue_stops_and_starts_and_each_once(api: TpuApi, client: Client) -> None:
    client.create("queued", accelerator_type="v6e-8")
    client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    api.advance(UNTIL_ACTIVE_S)
    with pytest.raises(exceptions.BadRequest, match="nodes/queued' cannot be stopped or started"):
        client.google.stop_node(request={"name": client.node_name("queued")}, retry=None)
    with pytest.raises(exceptions.BadRequest, match="nodes/n' is READY"):
        client.google.start_node(request={"name": client.node_name("n")}, retry=None)
    client.google.stop_node(request={"name": client.node_name("n")}, retry=None)
    with pytest.raises(exceptions.BadRequest, match="nodes/n' is STOPPING"):
        client.google.stop_node(request={"name": client.node_name("n")}, retry=None)


def test_an_operation_of_a_node_that_fails_names_the_node(api: TpuApi, client: Client) -> None:
    kind = next(kind for kind in FaultKind if kind.is_of_operation and not kind.has_effect)
    api.fail(kind, "CreateNode")
    operation = client.google.create_node(parent=PARENT, node_id="n", node=single(), retry=None)
    assert operation.metadata and operation.metadata.target == f"{PARENT}/nodes/n"
    assert client.error_of(operation)[0] != 0
    assert client.nodes() == {}
