"""The TPU API emulator: capacity, quota and nodes agree, whatever happens."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import contextlib
import json
from typing import Any

from google.cloud import tpu_v2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra.emulators.tpu_api import Cloud, QuotaTier, RequestState
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.errors import ApiError
from tests.unit.tpu_emulator.client import PARENT, START_S, TIMINGS, ZONE, wanted


def check_accounts(cloud: Cloud) -> None:
    for limit in cloud.ledger.pools.capacities:
        used = sum(claim.chips for claim in cloud.ledger.capacity_claims() if limit.concerns(claim))
        assert used <= max(limit.chips, 64), "more was given out than there ever was"
    for limit in cloud.ledger.pools.quotas:
        assert sum(claim.quota_units for claim in cloud.ledger.quota_claims() if limit.concerns(claim)) <= limit.units
    for node in cloud.ledger.nodes.values():
        assert node.request in cloud.ledger.requests, "a node outlived its request"
    for request in cloud.ledger.requests.values():
        names = {name for name in request.node_names if name in cloud.ledger.nodes}
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
@example([("create", 1), ("create spot", 0), ("time", 1), ("create", 2), ("preempt", 0), ("time", 1), ("delete", 0)])
def test_accounts_and_nodes_agree_whatever_happens(steps: list[tuple[str, int]]) -> None:
    cloud = Cloud(TIMINGS, now_s=START_S)
    cloud.levers.set_capacity(ZONE, "v6e", 64)
    cloud.levers.set_quota("p", ZONE, "v6e", 96, QuotaTier.SPOT)
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
                cloud.levers.preempt(request)
            elif what == "delete node":
                cloud.delete_node(node)
            elif what == "time":
                cloud.transitions.advance((1, 10, 60, 600)[number])
            else:
                cloud.levers.set_capacity(ZONE, "v6e", 0 if what == "stockout" else 64)
        cloud.transitions.settle()
        check_accounts(cloud)
        kept = json.loads(json.dumps(cloud.ledger.snapshot()))
        cloud.ledger.restore(kept)
        assert json.loads(json.dumps(cloud.ledger.snapshot())) == kept
    for name in list(cloud.ledger.requests):
        with contextlib.suppress(ApiError):
            cloud.delete_request(name, force=True)
    cloud.transitions.advance(3600)
    assert not cloud.ledger.requests
    assert not cloud.ledger.nodes
    assert all(operation.is_done(cloud.ledger.now_s) for operation in cloud.ledger.operations.values())
