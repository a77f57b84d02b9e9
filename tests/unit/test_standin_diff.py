"""What a change of a resource is to the stand-in for Google's plugin: an update, or a replacement in which order."""

from __future__ import annotations

from typing import Any

import pytest

from infra.providers.proto import provider_pb2
from infra.providers.server import to_struct
from infra.standins.gcp.defaults import FILLED_IN
from infra.standins.gcp.server import Server

BUCKET = "gcp:storage/bucket:Bucket"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
BEFORE: dict[str, Any] = {FILLED_IN: [], "name": "runs", "location": "eu", "labels": {"a": "b"}}


def difference(before: dict[str, Any], after: dict[str, Any], token: str = BUCKET) -> Any:
    old = to_struct(before)
    request = provider_pb2.DiffRequest(
        id="runs", urn=f"urn:pulumi:t::cloud::{token}::runs", olds=old, old_inputs=old, news=to_struct(after)
    )
    nobody: Any = None  # the engine's side of the call, which is asked only of a type that is not known
    return Server({}, None).Diff(request, nobody)


@pytest.mark.parametrize(
    ("before", "changed", "replaces", "deleted_first"),
    [
        ({}, {"location": "us"}, ["location"], True),
        ({}, {"location": "us", "name": "other"}, ["location", "name"], False),
        ({FILLED_IN: ["name"]}, {"location": "us"}, ["location"], False),  # the engine has a new name filled in
        ({}, {"labels": {"a": "c"}}, [], False),
    ],
    ids=["same name", "new name", "name filled in", "update"],
)
def test_what_keeps_its_name_is_deleted_before_it_is_made_anew(
    before: dict[str, Any], changed: dict[str, Any], replaces: list[str], deleted_first: bool
) -> None:
    answer = difference(BEFORE | before, BEFORE | before | changed)
    assert (list(answer.replaces), answer.deleteBeforeReplace) == (replaces, deleted_first)


@pytest.mark.parametrize(
    ("after", "replaces"),
    [("10.0.0.0/16", []), ("10.0.0.0/24", ["ipCidrRange"]), ("10.8.0.0/20", ["ipCidrRange"]), ("not known yet", [])],
)
def test_a_range_of_addresses_may_widen_and_else_is_another_subnet(after: str, replaces: list[str]) -> None:
    before = {FILLED_IN: [], "name": "s", "region": "us-east5", "ipCidrRange": "10.0.0.0/20"}
    assert list(difference(before, before | {"ipCidrRange": after}, SUBNET).replaces) == replaces
