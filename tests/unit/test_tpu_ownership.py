"""Whose a request is: what a colleague has, what a killed `up` has left, what the API says of it in other words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, Timings, TpuApi
from infra.names import OWNER_LABEL
from infra.providers.resource import ResourceError
from infra.targets.tpu_vm.provider.tpu_inputs import fingerprint
from infra.targets.tpu_vm.provider.tpu_ownership import StackClaim, age, tail
from tests.unit.tpu_stack import ZONES, Stack, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)
PATH = "projects/p/locations/us-east5-b/queuedResources/q-s"
COMMAND = "gcloud compute tpus queued-resources delete q-s --zone=us-east5-b --project=p --force"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS)) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


def stack_of(api: TpuApi, owner: str = "alice", **changes: Any) -> Stack:
    request = wanted(**changes)
    return Stack(wanted(labels={**request.labels, OWNER_LABEL: owner}, **changes), api.advance)


def refused(stack: Stack) -> str:
    with pytest.raises(ResourceError) as caught:
        stack.up()
    return str(caught.value)


def numbers(api: TpuApi) -> list[int]:
    """Which requests are there; one that was made anew has another number."""
    return [request.number for request in api.cloud.requests.values()]


@pytest.mark.parametrize("terms", [{}, {"tier": "on-demand"}, {"zones": ZONES[::-1]}], ids=str)
def test_a_colleagues_up_does_not_delete_a_running_request(api: TpuApi, terms: dict[str, Any]) -> None:
    alices = stack_of(api)
    alices.up()
    before = numbers(api)
    bobs = stack_of(api, "bob", **terms)
    assert refused(bobs) == (
        f"{PATH} is ACTIVE and made just now, by alice, who has a stack of this name too (this one is bob's); ask "
        f"them; to have both, give this stack another `prefix`; if theirs may go: {COMMAND}"
    )
    bobs.destroy()
    assert (numbers(api), alices.changes()) == (before, [])


def test_a_colleague_who_lost_the_request_does_not_take_the_others(api: TpuApi) -> None:
    bobs = stack_of(api, "bob")
    bobs.up()
    api.cloud.delete_request(PATH, force=True)
    api.advance(60)
    stack_of(api).up()
    before = numbers(api)
    assert bobs.changes() == ["request"]
    assert "made just now, by alice, who has a stack of this name too" in refused(bobs)
    bobs.destroy()
    assert numbers(api) == before


def test_another_clones_request_on_other_terms_is_refused_with_what_resolves_it(api: TpuApi) -> None:
    stack_of(api).up()
    before = numbers(api)
    other = stack_of(api, tier="on-demand")
    assert refused(other) == (
        f"{PATH} is ACTIVE and made just now, on other terms than this stack file's, and this state does not know it: "
        f"another clone of yours has made it, or an `up` that was killed; go on with it there, or if it may go: "
        f"{COMMAND}"
    )
    assert "request" not in other.state, "what is refused is not remembered as ours"
    assert numbers(api) == before
    assert refused(other).startswith(PATH), "nor is it at the second try"


def test_what_a_killed_up_has_asked_for_is_found_on_the_same_terms(api: TpuApi) -> None:
    stack_of(api).up()
    before = numbers(api)
    again = stack_of(api)  # its state knows nothing
    again.up()
    assert numbers(api) == before
    again.destroy()
    assert numbers(api) == []


def test_what_a_killed_up_has_asked_for_and_lost_is_asked_for_anew(api: TpuApi) -> None:
    stack_of(api).up()
    before = numbers(api)
    api.cloud.preempt(next(iter(api.cloud.nodes)))
    api.advance(60)
    again = stack_of(api)  # its state knows nothing
    again.up()
    assert len(numbers(api)) == 1 and numbers(api) != before
    assert again.changes() == []


def test_a_node_of_ours_whose_request_is_gone_makes_room_for_the_next(api: TpuApi) -> None:
    stack_of(api).up()
    (node,) = api.cloud.nodes.values()
    with api.lock:
        api.cloud.requests.clear()
    again = stack_of(api)  # its state knows nothing
    again.up()
    assert len(numbers(api)) == 1
    assert list(api.cloud.nodes.values()) != [node]
    assert again.changes() == []


def test_the_state_that_made_a_request_changes_its_terms_and_its_owner(api: TpuApi) -> None:
    stack = stack_of(api)
    stack.up()
    stack.request = stack_of(api, "bob", description="d").request
    stack.up()
    assert stack.changes() == []
    (node,) = api.cloud.nodes.values()
    assert (node.message.labels[OWNER_LABEL], node.message.description) == ("bob", "d")
    stack.destroy()
    assert numbers(api) == []


def test_a_guard_of_0_1_0_refuses_what_may_be_a_colleagues(api: TpuApi) -> None:
    alices = stack_of(api)
    alices.up()
    bobs = stack_of(api, "bob")
    with pytest.raises(ResourceError):
        bobs.up()
    bobs.state["guard"]["inputs"].pop("owner")
    bobs.state["guard"]["outputs"].pop("owner")
    with pytest.raises(ResourceError, match="which does not say whose the stack is; `pulumi up` puts that right"):
        bobs.destroy()
    assert alices.changes() == []


def test_a_wait_does_not_delete_what_somebody_has_asked_for_anew(api: TpuApi) -> None:
    api.cloud.stockout(ZONES[0], "v6e")
    waiting = stack_of(api, zones=ZONES[:1], valid_until_s=120)
    other = stack_of(api, zones=ZONES[:1], valid_until_s=120)
    inner = waiting.advance

    def asked_anew(seconds: float) -> None:
        if "ready" in other.state or not api.cloud.requests or "request" not in waiting.state:
            inner(seconds)
            return
        waiting.advance = inner
        api.cloud.delete_request(PATH, force=True)
        inner(60)
        other.wait = False
        other.up()
        inner(seconds)

    waiting.advance = asked_anew
    assert "is another request than the one that was waited for: somebody has asked for it anew" in refused(waiting)
    assert len(api.cloud.requests) == 1


def test_a_node_is_known_by_its_request_whether_the_project_is_an_id_or_a_number() -> None:
    of_id, of_number = (f"projects/{project}/locations/z/queuedResources/q" for project in ("p", "123"))
    assert tail(of_id) == tail(of_number) == "locations/z/queuedResources/q"


def test_a_fingerprint_of_0_1_0_is_still_the_same() -> None:
    """Computed by 0.1.0: an upgrade must find what an older one has asked for."""
    assert fingerprint(wanted(labels={})).partition("-")[0] == "fde0059132b3"


def test_a_claim_covers_the_states_own_and_the_owners_own() -> None:
    claim = StackClaim("s", "alice", "m1")
    labels = {"slipway-stack": "s", "slipway-owner": "alice", "slipway-made": "m2-f"}
    assert claim.covers(labels) and not claim.knows(labels)
    assert claim.knows(labels | {"slipway-owner": "bob", "slipway-made": "m1-f"})
    assert not claim.covers(labels | {"slipway-owner": "bob"})
    assert not claim.covers(labels | {"slipway-stack": "other", "slipway-made": "m1-f"})


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "just now"), (59, "just now"), (60, "1m ago"), (7300, "2h ago"), (260_000, "3d ago")]
)
def test_ages(seconds: int, said: str) -> None:
    made = datetime(2026, 12, 1, tzinfo=UTC)
    now = datetime.fromtimestamp(made.timestamp() + seconds, UTC)
    assert age(made.isoformat(), now) == f"made {said}"
