"""What each change is to the stand-in for Google's plugin, against what the plugin was seen to plan, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.providers.proto import provider_pb2
from infra.providers.resource import ResourceError
from infra.providers.server import to_struct, to_values
from infra.standins.gcp import differences, preconditions, provider_fields, schema
from infra.standins.gcp.schema import ListOf, MapOf, ObjectOf, ResourceType, Type
from infra.standins.gcp.server import Server
from infra.standins.gcp.store import StandInStore
from tests.google_plugin_cases import BUCKET, NAT, NETWORK, NOTHING, ONE_VALUE, POLICY, POOL, REPLACE, UPDATE, Values


def resource_of(token: str) -> ResourceType:
    resource = schema.resource_type(token)
    assert resource is not None
    return resource


def found(token: str, old: Values, new: Values, outputs: Values | None = None) -> dict[str, str]:
    """What is done because of which path."""
    each = differences.between(token, resource_of(token), old, new, outputs or {})
    return {one.path: REPLACE if one.replaces else UPDATE for one in each}


@pytest.mark.parametrize(("token", "old", "new", "what"), ONE_VALUE)
def test_a_change_of_one_value(token: str, old: Values, new: Values, what: str) -> None:
    assert sorted(set(found(token, old, new).values())) == ([] if what == NOTHING else [what])


def test_paths_are_those_of_the_plugin() -> None:
    old = {"nodeConfig": {"spot": False, "labels": {"a": "b"}, "taints": [{"key": "k", "value": "v", "effect": "e"}]}}
    new = {
        "nodeConfig": {"spot": True, "labels": {"a": "c"}, "taints": [{"key": "k", "value": "v", "effect": "f"}] * 2}
    }
    assert found(POOL, old, new) == {
        "nodeConfig.labels.a": UPDATE,
        "nodeConfig.spot": REPLACE,
        "nodeConfig.taints[0].effect": UPDATE,
        "nodeConfig.taints[1]": UPDATE,
    }
    assert found(POOL, {}, {"nodeConfig": {"spot": True}}) == {"nodeConfig": REPLACE}
    assert found(POOL, {"nodeConfig": [{"spot": True}]}, {"nodeConfig": {"spot": True}}) == {}


def test_a_value_is_compared_with_what_the_service_filled_in_before() -> None:
    assert found(NETWORK, {}, {"mtu": 1460}, {"mtu": 1460}) == {}
    assert found(NETWORK, {}, {"mtu": 8896}, {"mtu": 1460}) == {"mtu": UPDATE}


def test_a_default_is_filled_in_at_any_depth_and_is_no_change_of_a_state_that_is_older() -> None:
    rule = {"match": "m", "ruleNumber": 1}
    checked = check(NAT, {"name": "n", "router": "r", "sourceSubnetworkIpRangesToNat": "x", "rules": [rule]})
    assert checked["udpIdleTimeoutSec"] == 30
    assert "udpIdleTimeoutSec" in checked["__defaults"]
    assert checked["rules"] == [rule | {"__defaults": []}]
    older = {key: value for key, value in checked.items() if key not in (*checked["__defaults"], "__defaults")}
    assert found(NAT, older, checked) == {}
    assert found(NAT, checked | {"type": "PRIVATE", "__defaults": []}, checked) == {"type": REPLACE}
    budget = check("gcp:billing/budget:Budget", {"billingAccount": "b", "amount": {}, "budgetFilter": {}})
    assert budget["budgetFilter"]["__defaults"] == ["creditTypesTreatment"]
    vm = {"runtimeVersion": "r", "zone": "z", "acceleratorConfig": {"type": "V6E", "topology": "2x4"}}
    assert "acceleratorType" not in check("gcp:tpu/v2Vm:V2Vm", vm)


def test_a_name_that_is_no_longer_given_stays() -> None:
    made = check(BUCKET, {"name": "mine", "location": "eu"})
    assert check(BUCKET, {"location": "eu"}, made)["name"] == "mine"
    assert check(BUCKET, {"location": "eu"})["name"].startswith("x-")


def check(token: str, inputs: Values, olds: Values | None = None) -> Values:
    request = provider_pb2.CheckRequest(
        urn=f"urn:pulumi:t::cloud::{token}::x", news=to_struct(inputs), olds=to_struct(olds or {}), randomSeed=b"s"
    )
    nobody: Any = None
    answer = Server({"GOOGLE_PROJECT": "p"}, None).Check(request, nobody)
    assert not answer.failures
    return to_values(answer.inputs)


def test_a_topology_that_changes_is_planned_again_and_again_since_nothing_is_sent(tmp_path: Path) -> None:
    small, large = ({"type": "COMPACT", "tpuTopology": topology} for topology in ("4x4", "4x8"))
    made = {"cluster": "c", "name": "n", "nodeCount": 4, "placementPolicy": small}
    store = StandInStore(str(tmp_path), "")
    store.create(POOL, "id", made)
    nobody: Any = None
    request = provider_pb2.UpdateRequest(
        id="id",
        urn=f"urn:pulumi:t::cloud::{POOL}::x",
        olds=to_struct(store.marked(made)),
        news=to_struct(made | {"nodeCount": 8, "placementPolicy": large}),
    )
    left = to_values(Server({}, str(tmp_path)).Update(request, nobody).properties)
    stored = store.read(POOL, "id")
    assert stored
    for each in (left, stored):
        assert (each["nodeCount"], each["placementPolicy"]["tpuTopology"]) == (8, "4x4")
    inputs = made | {"placementPolicy": large}
    assert found(POOL, inputs, inputs, left) == {"placementPolicy.tpuTopology": UPDATE}


def test_a_policy_that_is_renamed_is_not_found_under_its_new_name() -> None:
    identifier = "projects/p/regions/r/resourcePolicies/a"
    with pytest.raises(
        ResourceError, match=r"Error 404: The resource 'projects/p/regions/r/resourcePolicies/b' was not"
    ):
        preconditions.check_update(POLICY, identifier, {"name": "a"}, {"name": "b"})
    preconditions.check_update(POLICY, identifier, {"name": "a"}, {"name": "a", "description": "d"})


@pytest.mark.parametrize("token", provider_fields.tokens())
def test_every_field_of_the_tables_is_one_of_the_sdk(token: str) -> None:
    fields = provider_fields.of(token)
    assert fields is not None
    named = (
        fields.sets
        | fields.replaced
        | fields.replaced_below
        | fields.computed
        | fields.unsent
        | fields.absent_after
        | {*fields.defaults}
    )
    assert [path for path in named if not is_there(resource_of(token), path)] == []


def is_there(resource: ResourceType, path: tuple[str, ...]) -> bool:
    fields = resource.inputs
    for depth, key in enumerate(path):
        if key not in fields:
            return False
        inner = _object_of(fields[key].type)
        if inner is None:
            return depth == len(path) - 1
        fields = schema.object_fields(inner) or {}
    return True


def _object_of(kind: Type) -> ObjectOf | None:
    match kind:
        case ListOf(item):
            return _object_of(item)
        case MapOf(value):
            return _object_of(value)
        case ObjectOf():
            return kind
        case _:
            return None
