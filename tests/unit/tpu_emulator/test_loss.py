"""The TPU API emulator: preempted, failed, silent, reset."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import pytest
from google.api_core import exceptions

from infra.emulators.tpu_api import (
    HOST_READY,
    Behaviour,
    Cloud,
    GuestAttribute,
    NodeState,
    OperationEnds,
    Timings,
    TpuApi,
)
from tests.unit.tpu_emulator.client import START_S, TIMINGS, UNTIL_ACTIVE_S, UNTIL_READY_S, Client


def test_preemption_suspends_the_request_and_takes_its_nodes(api: TpuApi, client: Client) -> None:
    client.create(spot={}, slices=2)
    api.advance(UNTIL_READY_S)
    api.cloud.levers.preempt(client.node_name("q-1"))
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
        api.cloud.levers.preempt(client.request())
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
        api.cloud.levers.preempt(client.request())
    with pytest.raises(ValueError, match="nothing to preempt"):
        api.cloud.levers.preempt(client.request("nothing"))


def test_a_request_may_fail_late(api: TpuApi, client: Client) -> None:
    client.create()
    api.advance(UNTIL_ACTIVE_S - 1)
    api.cloud.levers.fail_request(client.request(), "The network was not found.")
    assert (client.state(), client.nodes()) == ("FAILED", {})
    assert client.get().state.failed_data.error.message == "The network was not found."


def test_hosts_report_by_script_too() -> None:
    with TpuApi(Cloud(Timings(0, 0, 0, boot_s=None))) as api:
        client = Client(api.url)
        client.create()
        name = client.node_name()
        assert client.ready() == [""] * 8
        api.cloud.levers.set_host_ready(name, 3)
        assert client.ready() == ["", "", "", HOST_READY.value, "", "", "", ""]
        api.cloud.levers.set_host_ready(name)
        api.cloud.levers.set_host_ready(name, 3, ready=False)
        assert client.ready().count("") == 1
        api.cloud.levers.set_guest_attribute(name, 0, GuestAttribute("slipway", "status", "failed"))
        api.cloud.levers.set_guest_attribute(name, 0, GuestAttribute("other", "x", "y"))
        assert client.ready()[0] == "failed"
        assert client.ready(path="other/")[0] == "y"
        one = client.google.get_guest_attributes(request={"name": name, "worker_ids": ["7", "0"]})
        published = [[item.key for item in host.query_value.items] for host in one.guest_attributes]
        of_guest_agent = ["hostname", "ssh-ed25519"]
        assert published == [[*of_guest_agent, "status"], [*of_guest_agent, "status", "x"]]
        with pytest.raises(exceptions.BadRequest):
            client.google.get_guest_attributes(request={"name": name, "worker_ids": ["8"]})
        api.cloud.levers.set_node_state(name, NodeState.REPAIRING, "TIMEOUT", "a host does not answer")
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
