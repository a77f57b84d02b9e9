"""What our TPU resources send and refuse, without an API: bodies, checks, what a change means, readiness."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.names import STACK_LABEL
from infra.paths import ROOT
from infra.providers.input_types import UNKNOWN
from infra.providers.resource import OnChange
from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
from infra.targets.tpu_vm.provider.tpu_inputs import (
    QueuedResourceInputs,
    body,
    fingerprint,
    flex_start,
    problems,
    same_terms,
)
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from infra.vm_hosts.startup_script import METADATA_LIMIT

ZONE = "us-east5-b"
REQUEST = QueuedResourceInputs(
    project="p",
    zones=["us-east5-b", "us-east5-a"],
    name="q",
    nodes=1,
    accelerator_type="v6e-32",
    runtime_version="v2-alpha-tpuv6e",
    tier="on-demand",
    networks=[{"network": "n", "subnetwork": "s", "enable_external_ips": False}],
    service_account="sa",
    scopes=["scope"],
    labels={STACK_LABEL: "v6e-32"},
    tags=["t"],
    metadata={"startup-script": "#!"},
    data_disks=[{"source_disk": "d", "mode": "read-only"}],
)


def with_(**changes: Any) -> QueuedResourceInputs:
    return dataclasses.replace(REQUEST, **changes)


def node_spec(**changes: Any) -> dict[str, Any]:
    return body(with_(**changes), ZONE)["tpu"]["node_spec"][0]


def test_a_request_in_the_clients_own_words() -> None:
    assert problems(REQUEST) == []
    assert body(REQUEST, ZONE) == {
        "tpu": {
            "node_spec": [
                {
                    "parent": "projects/p/locations/us-east5-b",
                    "node_id": "q",
                    "node": {
                        "accelerator_type": "v6e-32",
                        "runtime_version": "v2-alpha-tpuv6e",
                        "service_account": {"email": "sa", "scope": ["scope"]},
                        "labels": {STACK_LABEL: "v6e-32"},
                        "tags": ["t"],
                        "metadata": {"startup-script": "#!"},
                        "description": "",
                        "data_disks": [{"source_disk": "d", "mode": "READ_ONLY"}],
                        "network_config": REQUEST.networks[0],
                    },
                }
            ]
        }
    }


def test_tiers_policies_and_sizes() -> None:
    assert body(with_(tier="spot"), ZONE)["spot"] == {}
    assert body(with_(tier="guaranteed", min_duration_s=60), ZONE)["guaranteed"] == {"min_duration": {"seconds": 60}}
    reserved = body(with_(tier="reserved", reservation="r"), ZONE)
    assert reserved["reservation_name"] == "projects/p/locations/us-east5-b/reservations/r"
    assert "guaranteed" not in reserved
    any_of_the_zone = body(with_(tier="reserved"), ZONE)["reservation_name"]
    assert any_of_the_zone == "projects/p/locations/us-east5-b/reservations/-"
    of_a_folder = "folders/7/locations/us-east5-b/reservations/r"
    assert body(with_(tier="reserved", reservation=of_a_folder), ZONE)["reservation_name"] == of_a_folder
    policy = body(with_(valid_until_s=60), ZONE)["queueing_policy"]
    assert policy == {"valid_until_duration": {"seconds": 60}}
    assert node_spec(nodes=32)["multislice_params"] == {"node_count": 32, "node_id_prefix": "q"}
    assert with_(nodes=3).node_ids == ("q-0", "q-1", "q-2")
    by_topology = node_spec(accelerator_type="", accelerator_kind="V6E", topology="4x8")["node"]
    assert by_topology["accelerator_config"] == {"type_": "V6E", "topology": "4x8"}
    assert node_spec(networks=[{"network": "a"}, {"network": "b"}])["node"]["network_configs"] == [
        {"network": "a"},
        {"network": "b"},
    ]
    assert node_spec(secure_boot=True)["node"]["shielded_instance_config"] == {"enable_secure_boot": True}


def test_a_beginning_and_an_end_are_one_interval_for_the_api_takes_one_constraint() -> None:
    now = datetime(2026, 11, 30, 23, 0, tzinfo=UTC)
    both = with_(valid_until_s=7200, valid_after="2026-12-01T00:00:00Z")
    assert body(both, ZONE, now)["queueing_policy"] == {
        "valid_interval": {"start_time": {"seconds": 1796083200}, "end_time": {"seconds": 1796083200 + 3600}}
    }


def test_flex_start_is_v2alpha1s_own_json() -> None:
    request = {"tpu": {"nodeSpec": [{"parent": "p", "multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "q"}}]}}
    assert flex_start(with_(tier="flex-start", max_run_duration_s=3600), request) == {
        "tpu": {"nodeSpec": [{"parent": "p", "multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "q"}}]},
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "3600s"},
    }


def test_google_has_every_field_that_is_sent() -> None:
    """The client refuses a field it does not know; in a process of its own, because its import is slow."""
    changes = [
        {},
        {"nodes": 2, "tier": "spot", "valid_until_s": 60, "valid_after": "2026-12-01T00:00:00Z", "cidr_block": "1"},
        {"valid_after_s": 60},
        {"tier": "guaranteed", "min_duration_s": 60, "networks": [{"network": "a", "can_ip_forward": True}] * 2},
        {"tier": "reserved", "reservation": "r", "secure_boot": True, "description": "d"},
        {"accelerator_type": "", "accelerator_kind": "V6E", "topology": "4x8"},
    ]
    bodies = [body(with_(**change), ZONE) for change in changes]
    code = (
        "import infra.providers.server, infra.providers.registry, google.cloud.storage, json, sys\n"
        "from infra.targets.tpu_vm.provider.tpu_api import types\n"
        "for body in json.loads(sys.argv[1]): types().QueuedResource(body)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(bodies)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"nodes": 0}, "nodes", "give the number of slices, from 1"),
        ({"name": "Q"}, "name", "'Q' is not a node's id"),
        ({"name": "q" * 62, "nodes": 11}, "name", "at most 63"),
        ({"tier": "cheap"}, "tier", "allowed: on-demand, spot, reserved, guaranteed, flex-start"),
        ({"reservation": "r"}, "reservation", "goes with tier reserved or guaranteed, not with on-demand"),
        ({"tier": "flex-start"}, "max_run_duration_s", "flex-start with it"),
        ({"max_run_duration_s": 60}, "max_run_duration_s", "goes with tier flex-start"),
        ({"min_duration_s": 1}, "min_duration_s", "goes with tier guaranteed"),
        ({"valid_until_s": 1, "valid_until": "2026-12-01T00:00:00Z"}, "valid_until", "not both"),
        ({"topology": "4x8"}, "accelerator_type", "accelerator_kind with topology"),
        ({"networks": []}, "networks", "the project's default network"),
        ({"networks": [{"net": "n"}]}, "networks", "a network has net; allowed: can_ip_forward"),
        ({"data_disks": [{"source_disk": "d", "mode": "rw"}]}, "data_disks", "read-write or read-only"),
        ({"metadata": {"a": "x" * (METADATA_LIMIT + 1)}}, "metadata", "has 262,145 bytes; the limit is 262,144"),
        ({"labels": {}}, "labels", f"labels lack '{STACK_LABEL}'"),
    ],
)
def test_what_the_api_would_refuse_is_refused_at_preview(changes: dict[str, Any], key: str, message: str) -> None:
    values = dataclasses.asdict(with_(**changes))
    ((found, sentence),) = TpuRequestResource().check(values)
    assert found == key
    assert message in sentence


def test_values_that_are_not_known_yet_pass() -> None:
    assert TpuRequestResource().check(dataclasses.asdict(REQUEST) | {"service_account": UNKNOWN}) == []


def test_labels_tags_metadata_and_description_are_patched_and_all_else_replaces_with_a_reason() -> None:
    kinds = {
        resource: {field.name: field.metadata["on_change"] for field in dataclasses.fields(resource.inputs)}
        for resource in (TpuRequestResource(), SliceReadyResource(), TpuStackGuardResource())
    }
    for resource, table in kinds.items():
        replaced = [name for name, kind in table.items() if kind is OnChange.REPLACE]
        assert len(resource.reasons(replaced)) == len(replaced), "a replacement without a reason"
    request = next(table for resource, table in kinds.items() if isinstance(resource, TpuRequestResource))
    updated = {name for name, kind in request.items() if kind is OnChange.UPDATE}
    assert updated == {"labels", "tags", "metadata", "description"}
    assert TpuRequestResource().reasons(["tier"]) == [
        "tier replaces: the queue serves a request on the terms it was made with"
    ]


def test_other_zones_to_try_do_not_give_up_the_one_that_it_is_in() -> None:
    def change(here: str, zones: list[str]) -> OnChange | None:
        old, new = dataclasses.asdict(REQUEST), dataclasses.asdict(with_(zones=zones))
        return TpuRequestResource().changes(old, new, {"zone": here}).get("zones")

    assert change("us-east5-a", ["us-east5-b", "us-east5-a"]) is None
    assert change("us-east5-a", ["us-east5-a"]) is OnChange.UPDATE
    assert change("us-east5-a", ["us-east5-b"]) is OnChange.REPLACE


def test_a_fingerprint_tells_what_only_a_new_request_can_change() -> None:
    same = [{}, {"labels": {"a": "b"}}, {"tags": ["other"]}, {"description": "d"}, {"zones": ["us-east5-a"]}]
    assert {fingerprint(with_(**change)) for change in same} == {fingerprint(REQUEST)}
    script = fingerprint(with_(metadata={"startup-script": "other"}))
    assert script != fingerprint(REQUEST)
    assert same_terms(script, fingerprint(REQUEST))
    for change in ({"tier": "spot"}, {"nodes": 2}, {"data_disks": []}, {"accelerator_type": "v6e-64"}):
        assert not same_terms(fingerprint(with_(**change)), fingerprint(REQUEST))


def test_what_has_ended_is_asked_for_anew_and_waited_for_anew() -> None:
    resource = TpuRequestResource()
    assert resource.drift({"state": "ACTIVE"}) == []
    for state in (
        {"state": "SUSPENDED"},
        {"state": "FAILED"},
        {"state": "DELETING"},
        {"state": "ACTIVE", "lost": ["q-1"]},
    ):
        assert resource.drift(state) == ["state"]
        assert resource.planned(state | {"made": "m"}, {})["made"] is UNKNOWN
    assert resource.drift({"state": "ACTIVE", "differs": ["labels of q"]}) == ["differs"]
    assert resource.planned({"state": "ACTIVE", "differs": ["labels of q"], "made": "m"}, {})["made"] == "m"
