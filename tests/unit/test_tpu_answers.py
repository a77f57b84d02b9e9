"""The provider against answers that the real service was seen to give: refusals, late visibility, numbers, repairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from infra.emulated import TPU
from infra.emulators.tpu_api import Behaviour, Cloud, FaultKind, QuotaTier, Timings, TpuApi, ZoneRefusal
from infra.emulators.tpu_api.records import Hidden, NodeState
from infra.providers.resource import Context, OnChange, ResourceError
from infra.targets.tpu_vm.provider import tpu_api
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs, body, fingerprint
from infra.targets.tpu_vm.provider.tpu_request import Known
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from tests.unit.emulated_engine import EmulatedContext
from tests.unit.tpu_stack import ZONES, Stack, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)

type Start = Callable[[Behaviour], TpuApi]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """An emulator that behaves as asked."""
    started: list[TpuApi] = []

    def begin(behaviour: Behaviour) -> TpuApi:
        api = TpuApi(Cloud(TIMINGS, behaviour))
        api.__enter__()
        started.append(api)
        monkeypatch.setenv(TPU, api.url)
        return api

    yield begin
    for api in started:
        api.close()
        assert not api.errors


@pytest.fixture
def api(start: Start) -> TpuApi:
    return start(Behaviour())


def refused(stack: Stack) -> str:
    with pytest.raises(ResourceError) as caught:
        stack.up()
    return str(caught.value)


def context(api: TpuApi) -> Context:
    return EmulatedContext(api.advance, [], 600)


# --- a zone that says no ---


@pytest.mark.parametrize("stays", [False, True], ids=["refused", "failed request"])
@pytest.mark.parametrize("how", ZoneRefusal)
def test_a_zone_that_refuses_leads_to_the_next(api: TpuApi, how: ZoneRefusal, stays: bool) -> None:
    api.cloud.levers.refuse(ZONES[0], how, stays=stays)
    stack = Stack(wanted(tier="on-demand"), api.advance)
    stack.up()
    assert stack.state["ready"]["outputs"]["zone"] == ZONES[1]
    assert len(api.cloud.ledger.requests) == 1
    assert stack.changes() == []


def test_no_zone_is_left_says_what_each_has_said(api: TpuApi) -> None:
    api.cloud.levers.refuse(ZONES[0], ZoneRefusal.LOCATION_POLICY)
    api.cloud.levers.set_quota("p", ZONES[1], "v6e", 0, QuotaTier.SPOT)
    sentence = refused(Stack(wanted(), api.advance))
    assert sentence.startswith("no zone serves it: cannot create projects/p/locations/us-east5-b/queuedResources/q-s: ")
    assert "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded" in sentence


# --- a server that says when to come back ---


@pytest.mark.parametrize("ask", [tpu_api.get, tpu_api.delete], ids=["Google's client", "our own call"])
def test_a_call_comes_back_no_earlier_than_the_server_has_asked(
    api: TpuApi, ask: Callable[[Context, str], object]
) -> None:
    api.fail(FaultKind.TOO_MANY_REQUESTS, retry_after_s=100)
    waiting = context(api)
    ask(waiting, f"{wanted().parent(ZONES[0])}/queuedResources/absent")
    assert [call.status for call in api.calls] == [429, 404]
    assert waiting.now() >= 100


def test_a_server_that_asks_for_longer_than_a_call_may_take_ends_it_at_once(api: TpuApi) -> None:
    api.fail(FaultKind.TOO_MANY_REQUESTS, retry_after_s=3600)
    waiting = context(api)
    with pytest.raises(ResourceError, match=r"\(429\); run it again"):
        tpu_api.get(waiting, f"{wanted().parent(ZONES[0])}/queuedResources/absent")
    assert (len(api.calls), waiting.now()) == (1, 0)


# --- a request that is there and not to be seen ---


@pytest.mark.parametrize("hidden", Hidden)
def test_a_request_that_appears_late_is_one_and_no_orphan(start: Start, hidden: Hidden) -> None:
    api = start(Behaviour(appears_after_s=20, hidden_from=hidden))
    stack = Stack(wanted(), api.advance)
    stack.up()
    assert (len(api.cloud.ledger.requests), stack.changes()) == (1, [])
    stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


@pytest.mark.parametrize("hidden", Hidden)
@pytest.mark.parametrize("then", ["up", "destroy"])
def test_killed_right_after_the_create_nothing_is_left_and_nothing_doubled(
    start: Start, hidden: Hidden, then: str
) -> None:
    """The state has only the guard, and the API does not know the request yet."""
    api = start(Behaviour(appears_after_s=20, hidden_from=hidden))
    killed = guarded(api)
    ask(api, killed, wanted())
    if then == "up":
        killed.up()
        assert (len(api.cloud.ledger.requests), killed.changes()) == (1, [])
    killed.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


@pytest.mark.parametrize("failed", [False, True], ids=["other terms", "has failed meanwhile"])
def test_what_a_killed_up_asked_for_is_judged_once_it_is_seen(start: Start, failed: bool) -> None:
    api = start(Behaviour(appears_after_s=20, hidden_from=Hidden.GET))
    stack = guarded(api)
    if failed:
        api.cloud.levers.refuse(ZONES[0], ZoneRefusal.NO_CAPACITY, stays=True)
    ask(api, stack, wanted(tier="on-demand"))
    stack.up()
    assert stack.state["ready"]["outputs"]["zone"] == ZONES[1 if failed else 0]
    assert [request.tier for request in api.cloud.ledger.requests.values() if request.state == "ACTIVE"] == ["spot"]
    assert stack.changes() == []
    stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def guarded(api: TpuApi) -> Stack:
    """A stack whose state has nothing but its guard."""
    stack = Stack(wanted(), api.advance)
    stack.up()
    guard = stack.state["guard"]
    stack.destroy()
    return Stack(wanted(), api.advance, state={"guard": guard})


def ask(api: TpuApi, stack: Stack, request: QueuedResourceInputs, zone: str = ZONES[0], made: str = "m") -> None:
    """As the stack's `up` does it, which is killed before the engine learns of it."""
    marks = {
        "slipway-made": f"{made}-{fingerprint(request)}",
        "slipway-state": stack.state["guard"]["outputs"]["identity"],
    }
    asked = tpu_api.as_json(body(dataclasses.replace(request, labels=request.labels | marks), zone))
    tpu_api.create(context(api), request.parent(zone), request.name, asked, "12345678-1234-1234-1234-123456789abc")


@pytest.mark.parametrize("hidden", Hidden)
@pytest.mark.parametrize("then", ["up", "destroy"])
@pytest.mark.parametrize("moved", [False, True], ids=["asked anew", "moved"])
def test_killed_right_after_the_next_request_nothing_is_left_and_nothing_doubled(
    start: Start, moved: bool, then: str, hidden: Hidden
) -> None:
    """`destroy` saw neither the request that the state knew nor the one after it, which ran on; `up` made a second."""
    api = start(Behaviour(appears_after_s=20, hidden_from=hidden))
    killed = Stack(wanted(), api.advance, wait=not moved)
    if moved:
        api.cloud.levers.stockout(ZONES[0], "v6e")
    killed.up()
    if not moved:
        api.cloud.levers.preempt(next(iter(api.cloud.ledger.nodes)))
    api.advance(60)
    killed.refresh()
    api.cloud.delete_request(wanted().path(ZONES[0]), force=True)
    api.advance(60)
    api.cloud.levers.set_capacity(ZONES[0], "v6e", None)
    assert api.cloud.ledger.requests == {}
    made = str(killed.state["request"]["outputs"]["made"])
    ask(api, killed, wanted(), *((ZONES[1], made) if moved else ()))
    if then == "up":
        killed.wait = True
        killed.up()
        assert (len(api.cloud.ledger.requests), killed.changes()) == (1, [])
    killed.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def test_what_runs_in_a_zone_that_was_closed_since_is_not_said_to_be_deleted(api: TpuApi) -> None:
    """`destroy` passed the zone over and ended well, and the slice in it ran on."""
    stack = Stack(wanted(), api.advance)
    stack.up()
    api.cloud.levers.refuse(ZONES[0], ZoneRefusal.LOCATION_POLICY)
    with pytest.raises(ResourceError, match="us-east5-b has been closed to the project, and what was made there may"):
        stack.destroy()
    assert "request" in stack.state
    api.cloud.levers.refuse(ZONES[0], None)
    stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def test_a_state_that_asked_and_never_saw_waits_before_it_believes_that_nothing_is_there() -> None:
    assert Known.of({"made": "m"}).on_its_way
    assert Known.of({"made": "m", "state": "WAITING_FOR_RESOURCES"}).on_its_way
    assert not Known.of({"made": "m", "state": "ACTIVE"}).on_its_way
    assert not Known.of({}).on_its_way


# --- what others write, and what the service mends ---


def test_metadata_that_gcloud_has_put_on_a_node_survives_an_update(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    with api.lock:
        node.message.metadata["ssh-keys"] = "me:ssh-rsa AAAA"
    assert stack.changes() == [], "what others write is no drift"
    stack.request = wanted(metadata={"startup-script": "#! other"})
    stack.up()
    assert dict(node.message.metadata) == {"startup-script": "#! other", "ssh-keys": "me:ssh-rsa AAAA"}


def test_a_preview_says_that_a_waiting_request_loses_its_place_and_what_can_be_patched_later_keeps_it(
    api: TpuApi,
) -> None:
    api.cloud.levers.set_capacity(ZONES[0], "v6e", 0)
    stack = Stack(wanted(zones=ZONES[:1]), api.advance, wait=False)
    stack.up()
    api.advance(60)
    stack.refresh()
    (before,) = (request.number for request in api.cloud.ledger.requests.values())
    labels = {**wanted().labels, "team": "a"}
    stack.request = wanted(zones=ZONES[:1], labels=labels, tags=["u"], description="d")
    stack.up()
    assert [request.number for request in api.cloud.ledger.requests.values()] == [before]

    resource, now = TpuRequestResource(), stack.state["request"]["outputs"]
    assert now["state"] == "WAITING_FOR_RESOURCES"
    stack.request = wanted(zones=ZONES[:1], labels=labels, metadata={"startup-script": "#! other"})
    changed = resource.changes(now, dataclasses.asdict(stack.request), now)
    assert changed["metadata"] is OnChange.REPLACE
    assert resource.reasons(["metadata"]) == [
        "metadata replaces: of what hosts start with only their bundle can be changed while a request waits, so its "
        "place in the queue is lost"
    ]
    assert resource.changes(now, dataclasses.asdict(stack.request), now | {"state": "ACTIVE"})["metadata"] is (
        OnChange.UPDATE
    )
    stack.up()
    (after,) = (request.number for request in api.cloud.ledger.requests.values())
    assert after != before
    api.cloud.levers.set_capacity(ZONES[0], "v6e", None)
    stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def test_a_request_that_gets_its_nodes_is_not_given_up_for_an_answer_that_says_nothing(api: TpuApi) -> None:
    """It was deleted and asked for anew, at the end of the queue, though its preview had said that it is updated."""
    stack = Stack(wanted(), api.advance, wait=False)
    stack.up()
    (request,) = api.cloud.ledger.requests.values()
    while request.state != "PROVISIONING":
        api.advance(0.5)
    stack.request = wanted(metadata={"startup-script": "#! another"})
    api.fail(FaultKind.EMPTY, "ListNodes")
    stack.up()
    assert list(api.cloud.ledger.requests.values()) == [request]


def test_metadata_that_is_no_longer_wanted_goes(api: TpuApi) -> None:
    stack = Stack(wanted(metadata={"startup-script": "#!", "ours": "1"}), api.advance)
    stack.up()
    stack.request = wanted()
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    assert dict(node.message.metadata) == {"startup-script": "#!"}


def test_an_update_beside_anothers_is_tried_again(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    theirs = {"name": node.name, "metadata": {"startup-script": "#!", "ssh-keys": "me:ssh-rsa AAAA"}}
    tpu_api.update_node(context(api), theirs, ["metadata"])
    stack.request = wanted(description="ours")
    stack.up()
    assert (node.message.description, node.message.metadata["ssh-keys"]) == ("ours", "me:ssh-rsa AAAA")
    assert [call.status for call in api.calls_of("UpdateNode")].count(409) >= 1


@pytest.mark.parametrize(
    ("state", "health", "said"),
    [
        (NodeState.REPAIRING, "HEALTHY", "q-s is REPAIRING"),
        (NodeState.READY, "UNHEALTHY_MAINTENANCE", "q-s is UNHEALTHY_MAINTENANCE"),
    ],
)
def test_a_node_that_the_service_mends_is_said_and_left_alone(
    api: TpuApi, state: NodeState, health: str, said: str
) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    api.cloud.levers.set_node_state(node.name, state, health)
    assert stack.changes() == []
    assert stack.state["request"]["outputs"]["unwell"] == [said]
    assert f"{said}: the service mends that itself, and the request stays as it is" in stack.lines
    stack.up()
    assert list(api.cloud.ledger.nodes.values()) == [node]


def test_a_node_whose_repair_has_failed_is_asked_for_anew(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    api.cloud.levers.set_node_state(node.name, NodeState.UNKNOWN)
    assert stack.changes() == ["request"]
    assert stack.state["request"]["outputs"]["lost"] == ["q-s"]
    stack.up()
    (new,) = api.cloud.ledger.nodes.values()
    assert new is not node


def test_operations_that_say_more_than_googles_client_knows_are_read(start: Start) -> None:
    api = start(Behaviour(extras_in_operations=True))
    stack = Stack(wanted(), api.advance)
    stack.up()
    stack.request = wanted(description="other")
    stack.up()
    stack.destroy()
    assert api.cloud.ledger.requests == {}


def test_a_live_node_of_another_request_is_never_deleted_for_its_name(api: TpuApi) -> None:
    """Its request's name has the project's number in it, which no comparison with the id finds."""
    other = Stack(wanted(nodes=2, zones=ZONES[:1]), api.advance, hosts=2)
    other.up()
    stack = Stack(wanted(name="q-s-0", zones=ZONES[:1]), api.advance)
    assert refused(stack) == (
        "projects/p/locations/us-east5-b/nodes/q-s-0 is a node of projects/p/locations/us-east5-b/queuedResources/q-s, "
        "so q-s-0 cannot have one of that name; give this stack another name (`slipway stack new` with --variant "
        "writes one), or if that may go: gcloud compute tpus queued-resources delete q-s "
        "--zone=us-east5-b --project=p --force"
    )
    assert len(api.cloud.ledger.nodes) == 2


# --- flex-start ---


def test_flex_start_is_asked_of_v2alpha1_and_ends_with_its_run(api: TpuApi) -> None:
    stack = Stack(wanted(tier="flex-start", max_run_duration_s=3600), api.advance)
    stack.up()
    (call,) = api.calls_of("CreateQueuedResource")
    assert call.target.startswith("/v2alpha1/")
    assert (call.body["provisioningModel"], call.body["runDuration"]) == ("FLEX_START", {"maxRunDuration": "3600s"})
    assert stack.changes() == []
    api.advance(4000)
    assert stack.changes() == ["request"]
    stack.destroy()
    assert api.cloud.ledger.requests == {}
