"""Whose a request is: what a colleague has, what a killed `up` has left, what the API says of it in other words."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, FaultKind, Timings, TpuApi
from infra.names import MADE_LABEL, OWNER_LABEL, STACK_LABEL, STATE_LABEL
from infra.providers.resource import ResourceError
from infra.targets.tpu_vm.provider import tpu_cleanup
from infra.targets.tpu_vm.provider.tpu_inputs import fingerprint
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim, age, tail, with_taker
from tests.unit.emulated_engine import EmulatedContext
from tests.unit.tpu_stack import ZONES, Stack, labels_in, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)
PATH = "projects/p/locations/us-east5-b/queuedResources/q-s"
COMMAND = "gcloud compute tpus queued-resources delete q-s --zone=us-east5-b --project=p --force"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS)) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


def stack_of(api: TpuApi, owner: str = "alice", **changes: Any) -> Stack:
    """A clone's stack, with a state of its own that knows nothing yet."""
    request = wanted(**changes)
    return Stack(wanted(labels={**request.labels, OWNER_LABEL: owner}, **changes), api.advance, owner=owner)


def killed(stack: Stack) -> Stack:
    """What is left of it where `up` was killed before the engine wrote down that a request was made."""
    stack.up()
    state = {"guard": stack.state["guard"]}
    return Stack(stack.request, stack.advance, owner=stack.owner, state=state)


def refused(stack: Stack) -> str:
    with pytest.raises(ResourceError) as caught:
        stack.up()
    return str(caught.value)


def numbers(api: TpuApi) -> list[int]:
    """Which requests are there; one that was made anew has another number."""
    return [request.number for request in api.cloud.ledger.requests.values()]


def elsewhere(holder: str) -> str:
    return (
        f"{PATH} is ACTIVE and made just now, by alice from another clone or backend, and this state does not know it; "
        f"go on with it there; to have both, give this stack another name (`slipway stack new` with --variant writes "
        f"one); to have it here instead, write `slipway:take_over: '{holder}'` into the stack file; if it may go: "
        f"{COMMAND}"
    )


@pytest.mark.parametrize("owner", ["alice", "bob"])
@pytest.mark.parametrize("terms", [{}, {"tier": "on-demand"}, {"zones": ZONES[::-1]}], ids=str)
def test_another_clones_up_and_destroy_leave_a_running_request_alone(
    api: TpuApi, owner: str, terms: dict[str, Any]
) -> None:
    first = stack_of(api)
    first.up()
    before, labels = numbers(api), [dict(node.message.labels) for node in api.cloud.ledger.nodes.values()]
    second = stack_of(api, owner, **terms)
    assert refused(second) == elsewhere(first.holding)
    assert "request" not in second.state, "what is refused is not remembered as ours"
    assert refused(second).startswith(PATH), "nor is it at the second try"
    second.destroy()
    assert (numbers(api), first.changes()) == (before, [])
    assert [dict(node.message.labels) for node in api.cloud.ledger.nodes.values()] == labels


def test_a_clone_that_lost_its_request_does_not_take_the_others(api: TpuApi) -> None:
    bobs = stack_of(api, "bob")
    bobs.up()
    api.cloud.delete_request(PATH, force=True)
    api.advance(60)
    stack_of(api).up()
    before = numbers(api)
    assert bobs.changes() == ["request"]
    assert "made just now, by alice from another clone or backend" in refused(bobs)
    bobs.destroy()
    assert numbers(api) == before


def test_what_a_killed_up_has_asked_for_is_found_on_the_same_terms(api: TpuApi) -> None:
    again = killed(stack_of(api))
    before = numbers(api)
    again.up()
    assert numbers(api) == before
    again.destroy()
    assert numbers(api) == []


def test_what_a_killed_up_has_asked_for_on_other_terms_is_asked_for_anew(api: TpuApi) -> None:
    again = killed(stack_of(api))
    before = numbers(api)
    again.request = wanted(tier="on-demand")
    again.up()
    assert len(numbers(api)) == 1 and numbers(api) != before
    assert again.changes() == []


def test_what_a_killed_up_has_asked_for_and_lost_is_asked_for_anew(api: TpuApi) -> None:
    again = killed(stack_of(api))
    before = numbers(api)
    api.cloud.levers.preempt(next(iter(api.cloud.ledger.nodes)))
    api.advance(60)
    again.up()
    assert len(numbers(api)) == 1 and numbers(api) != before
    assert again.changes() == []


@pytest.mark.parametrize("change", ["owner", "zones", "nothing"])
def test_destroy_ends_what_a_killed_up_has_asked_for_whatever_the_stack_file_says_now(api: TpuApi, change: str) -> None:
    """The slice of the new owner billed on: the guard looked for the old one."""
    first = stack_of(api)
    first.up()
    first.destroy()
    renamed = stack_of(api, "bob") if change == "owner" else stack_of(api)
    if change == "zones":
        renamed = stack_of(api, zones=ZONES[::-1])
    first.request, first.owner = renamed.request, renamed.owner
    again = killed(first)
    assert len(numbers(api)) == 1
    again.destroy()
    assert (numbers(api), list(api.cloud.ledger.nodes)) == ([], [])


def test_an_owner_that_changes_before_a_killed_up_changes_nothing_of_whose_it_is(api: TpuApi) -> None:
    stack = stack_of(api)
    stack.up()
    guard = stack.state["guard"]
    api.cloud.delete_request(PATH, force=True)
    api.advance(60)
    stack.refresh()
    stack.request, stack.owner = stack_of(api, "bob").request, "bob"
    stack.up()
    left = Stack(stack.request, api.advance, owner="bob", state={"guard": guard})  # `up` was killed before it wrote
    left.destroy()
    assert (numbers(api), list(api.cloud.ledger.nodes)) == ([], [])


def test_a_node_of_ours_whose_request_is_gone_makes_room_for_the_next(api: TpuApi) -> None:
    again = killed(stack_of(api))
    (node,) = api.cloud.ledger.nodes.values()
    with api.lock:
        api.cloud.ledger.requests.clear()
    again.up()
    assert len(numbers(api)) == 1
    assert list(api.cloud.ledger.nodes.values()) != [node]
    assert again.changes() == []


def test_a_node_that_is_made_while_ours_of_its_name_is_waited_for_is_left_alone(api: TpuApi) -> None:
    """It was deleted where it came in the last pause: whose it is was not asked again."""
    again = killed(stack_of(api))
    (node,) = api.cloud.ledger.nodes.values()
    with api.lock:
        api.cloud.ledger.requests.clear()
    waited = 0.0

    def advance(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        api.advance(seconds)
        if waited >= tpu_cleanup.appears_s():
            node.message.labels[STACK_LABEL] = "another"

    again.advance = advance
    assert "by stack another of alice" in refused(again)
    assert list(api.cloud.ledger.nodes.values()) == [node]


def test_a_node_that_is_made_while_another_of_its_name_is_deleted_is_left_alone(api: TpuApi) -> None:
    stack_of(api).up()
    (node,) = api.cloud.ledger.nodes.values()
    made, another = node.message.labels[MADE_LABEL], copy.deepcopy(node)
    another.message.labels[MADE_LABEL] = "another"

    def advance(seconds: float) -> None:
        api.advance(seconds)
        api.cloud.ledger.nodes.setdefault(another.name, another)

    tpu_cleanup.remove_node(EmulatedContext(advance, [], 600), node.name, made)
    assert list(api.cloud.ledger.nodes.values()) == [another]


# --- what a stack file asks to take over ---


def test_a_request_is_taken_over_where_the_stack_file_asks_for_it_and_it_is_said(api: TpuApi) -> None:
    first = stack_of(api)
    first.up()
    for request in api.cloud.ledger.requests.values():
        request.message.create_time.seconds -= 3 * 3600
    before = numbers(api)
    second = stack_of(api, "bob", take_over=first.holding, description="d")
    second.up()
    assert f"{PATH} is taken over, made 3h ago by alice from another clone or backend" in second.lines
    assert (numbers(api), second.changes()) == (before, [])
    (node,) = api.cloud.ledger.nodes.values()
    assert (node.message.labels[OWNER_LABEL], node.message.description) == ("bob", "d")

    assert "request" in first.changes()
    assert "and this state does not know it; go on with it there" in refused(first)
    first.destroy()
    assert numbers(api) == before, "what was taken over is out of reach of who had it"
    second.up()
    second.destroy()
    assert (numbers(api), list(api.cloud.ledger.nodes)) == ([], [])


def test_a_killed_take_over_goes_on_and_its_guard_ends_what_it_has(api: TpuApi) -> None:
    first = stack_of(api)
    first.up()
    for act in (Stack.up, Stack.destroy):
        second = killed(stack_of(api, take_over=first.holding))
        act(second)
        first = second
    assert (numbers(api), list(api.cloud.ledger.nodes)) == ([], [])


def test_the_key_names_one_request_of_one_state_and_never_acts_twice(api: TpuApi) -> None:
    first = stack_of(api)
    first.up()
    key = first.holding
    second = stack_of(api, take_over=key)
    second.up()
    first.request = second.request  # the stack file is committed: the first clone has the key too
    assert "go on with it there" in refused(first)
    second.destroy()
    first.up()
    before = numbers(api)
    assert "go on with it there" in refused(second)
    assert numbers(api) == before


@pytest.mark.parametrize("skip", range(3))
def test_an_answer_about_nodes_that_says_nothing_neither_takes_back_nor_deletes(api: TpuApi, skip: int) -> None:
    """Nodes say whose a request is and whether it is whole."""
    first = stack_of(api)
    first.up()
    second = stack_of(api, take_over=first.holding)
    second.up()
    before, labels = numbers(api), [labels_in(api.cloud, name) for name in api.cloud.ledger.requests]
    for stack in (first, second):
        api.fail(FaultKind.EMPTY, "ListNodes", skip=skip)
        stack.request = wanted(labels={**stack.request.labels, "team": "a"}, take_over=stack.request.take_over)
        if stack is first:
            assert "go on with it there" in refused(stack)
        else:
            stack.up()
        assert (numbers(api), [labels_in(api.cloud, name) for name in api.cloud.ledger.requests]) == (before, labels)


@pytest.mark.parametrize("skip", range(3))
@pytest.mark.parametrize("rpc", ["ListNodes", "ListQueuedResources"])
def test_a_destroy_that_is_told_nothing_deletes_nothing_that_was_taken_over(api: TpuApi, rpc: str, skip: int) -> None:
    first = stack_of(api)
    first.up()
    second = stack_of(api, take_over=first.holding)
    second.up()
    before = numbers(api)
    api.fail(FaultKind.EMPTY, rpc, skip=skip)
    first.destroy()
    assert (numbers(api), second.changes()) == (before, [])


def test_the_nodes_of_a_request_are_listed_once_by_a_read_and_once_by_an_update(api: TpuApi) -> None:
    stack = stack_of(api)
    stack.up()
    for act, lists in ((stack.refresh, 2), (stack.up, 2)):  # a refresh reads the request for SliceReady too
        stack.request = wanted(labels={**stack.request.labels, "team": "a"})
        listed = len(api.calls_of("ListNodes"))
        act()
        assert len(api.calls_of("ListNodes")) - listed == lists


@pytest.mark.parametrize("why", ["waits", "other terms", "lost"])
def test_what_is_not_whole_or_on_other_terms_is_not_taken_over(api: TpuApi, why: str) -> None:
    if why == "waits":
        api.cloud.levers.set_capacity(ZONES[0], "v6e", 0)
    first = stack_of(api, zones=ZONES[:1])
    first.wait = why != "waits"
    first.up()
    if why == "lost":
        api.cloud.levers.preempt(next(iter(api.cloud.ledger.nodes)))
        api.advance(60)
    before = numbers(api)
    terms = {"tier": "on-demand"} if why == "other terms" else {}
    second = stack_of(api, zones=ZONES[:1], take_over=first.holding, **terms)
    assert "but only what is ACTIVE and on this stack file's terms can be taken over" in refused(second)
    second.destroy()
    assert numbers(api) == before


# --- states of 0.1.0, which have no identity ---


def of_0_1_0(stack: Stack) -> Stack:
    """Its state as 0.1.0 would have left it, and what it has made."""
    for entry in stack.state.values():
        for kept in (entry["inputs"], entry["outputs"]):
            kept.pop("identity", None)
            kept.pop("take_over", None)
    return stack


@pytest.fixture
def old(api: TpuApi, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack whose guard and request are of 0.1.0: nothing says which state has made it."""
    monkeypatch.setattr("infra.targets.tpu_vm.provider.tpu_guard_resource.new_identity", lambda _: "")
    stack = stack_of(api)
    stack.up()
    monkeypatch.undo()
    monkeypatch.setenv(TPU, api.url)
    (node,) = api.cloud.ledger.nodes.values()
    assert STATE_LABEL not in node.message.labels
    return of_0_1_0(stack)


def test_a_state_of_0_1_0_goes_on_with_its_request(api: TpuApi, old: Stack) -> None:
    before = numbers(api)
    assert old.changes() == []
    old.request = wanted(labels={**wanted().labels, "team": "a"})
    old.up()
    assert (numbers(api), old.changes()) == (before, [])
    old.destroy()
    assert numbers(api) == []


def test_what_a_killed_up_of_a_state_of_0_1_0_has_asked_for_is_its_own(api: TpuApi, old: Stack) -> None:
    before = copy.deepcopy(old.state)
    api.cloud.levers.preempt(next(iter(api.cloud.ledger.nodes)))
    api.advance(60)
    old.up()
    again = Stack(old.request, api.advance, state=before)
    again.up()
    assert len(numbers(api)) == 1
    assert again.changes() == []
    again.destroy()
    assert numbers(api) == []


def test_a_request_of_0_1_0_is_named_by_itself_where_it_is_to_be_taken_over(api: TpuApi, old: Stack) -> None:
    made = old.state["request"]["outputs"]["made"]
    second = stack_of(api)
    assert refused(second) == elsewhere(made)
    second.request = wanted(take_over=made)
    second.up()
    assert second.changes() == []
    old.destroy()
    assert len(numbers(api)) == 1
    second.destroy()
    assert numbers(api) == []


def test_a_guard_says_what_0_1_0_has_left_and_deletes_none_of_it(api: TpuApi, old: Stack) -> None:
    said = (
        f"{PATH}: labelled as this stack's, made by Slipway 0.1.0, which did not say by which clone; if they may go: "
    )
    del old.state["request"], old.state["ready"]
    with pytest.raises(ResourceError) as caught:
        old.destroy()
    assert str(caught.value).startswith(said) and COMMAND in str(caught.value)
    second = stack_of(api)
    refused(second)
    second.destroy()
    assert any(line.startswith(said) for line in second.lines)
    assert len(numbers(api)) == 1


def test_the_state_that_made_a_request_changes_its_terms_and_its_owner(api: TpuApi) -> None:
    stack = stack_of(api)
    stack.up()
    stack.request, stack.owner = stack_of(api, "bob", description="d").request, "bob"
    stack.up()
    assert stack.changes() == []
    (node,) = api.cloud.ledger.nodes.values()
    assert (node.message.labels[OWNER_LABEL], node.message.description) == ("bob", "d")
    stack.destroy()
    assert numbers(api) == []


def test_a_wait_does_not_delete_what_somebody_has_asked_for_anew(api: TpuApi) -> None:
    api.cloud.levers.stockout(ZONES[0], "v6e")
    waiting = stack_of(api, zones=ZONES[:1], valid_until_s=120)
    other = stack_of(api, zones=ZONES[:1], valid_until_s=120)
    inner = waiting.advance

    def asked_anew(seconds: float) -> None:
        if "ready" in other.state or not api.cloud.ledger.requests or "request" not in waiting.state:
            inner(seconds)
            return
        waiting.advance = inner
        api.cloud.delete_request(PATH, force=True)
        inner(60)
        other.wait = False
        other.up()
        inner(seconds)

    waiting.advance = asked_anew
    assert "somebody has deleted it, or has it now; run `pulumi up`, which asks for it again" in refused(waiting)
    assert len(api.cloud.ledger.requests) == 1


def test_a_node_is_known_by_its_request_whether_the_project_is_an_id_or_a_number() -> None:
    of_id, of_number = (f"projects/{project}/locations/z/queuedResources/q" for project in ("p", "123"))
    assert tail(of_id) == tail(of_number) == "locations/z/queuedResources/q"


def test_a_fingerprint_of_0_1_0_is_still_the_same() -> None:
    """Computed by 0.1.0: an upgrade must find what an older one has asked for."""
    assert fingerprint(wanted(labels={})).partition("-")[0] == "fde0059132b3"


def test_a_claim_is_of_what_carries_the_identity_or_is_known() -> None:
    claim = StackClaim("s", "i1", "m1", "i2-m2")
    labels = {"slipway-stack": "s", "slipway-state": "i2", "slipway-made": "m2-f"}
    assert claim.wants(labels) and not claim.owns(labels)
    assert not claim.wants(with_taker(labels, {"slipway-state": "i3"})), "another state has it by now"
    assert not claim.wants(labels | {"slipway-made": "m3-f"}), "another request of that state"
    assert claim.owns(labels | {"slipway-made": "m1-f"})
    assert claim.owns(labels | {"slipway-state": "i1"})
    assert not claim.owns(with_taker(labels | {"slipway-made": "m1-f"}, labels | {"slipway-state": "i3"}))
    assert claim.owns(with_taker(labels, {"slipway-state": "i1"}))
    assert not claim.owns(labels | {"slipway-stack": "other", "slipway-made": "m1-f", "slipway-state": "i1"})
    assert not StackClaim("s").owns({"slipway-stack": "s"}), "what names no state is nobody's"


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "just now"), (59, "just now"), (60, "1m ago"), (7300, "2h ago"), (260_000, "3d ago")]
)
def test_ages(seconds: int, said: str) -> None:
    made = datetime(2026, 12, 1, tzinfo=UTC)
    now = datetime.fromtimestamp(made.timestamp() + seconds, UTC)
    assert age(made.isoformat(), now) == f"made {said}"
