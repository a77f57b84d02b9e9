"""Whatever two operators, the cloud and kill do to a stack: once `up` or `destroy` succeeds, state and cloud agree."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, Timings, TpuApi
from infra.emulators.tpu_api.checks import Place
from infra.names import OWNER_LABEL, STACK_LABEL
from infra.providers.resource import ResourceError
from infra.targets.tpu_vm.provider.tpu_api import types
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs, body
from infra.targets.tpu_vm.provider.tpu_ownership import holder_of, holding
from tests.suite.soak import cases
from tests.unit.tpu_stack import ZONES, Stack, labels_in, wanted

EXAMPLES = cases(12, 60)
STEPS = 33 * EXAMPLES  # of at most 50 each
TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)
CHANGES: list[dict[str, Any]] = [
    {},
    {"labels": {**wanted().labels, "team": "a"}},
    {"labels": {**wanted().labels, OWNER_LABEL: "bob"}},
    {"tags": ["u"]},
    {"metadata": {"startup-script": "#! other"}},
    {"description": "d"},
    {"tier": "on-demand"},
    {"zones": ZONES[::-1]},
    {"valid_until_s": 20},
]
_steps = 0


class _KilledError(BaseException):
    """kill -9: nothing is written any more."""


class Stacks(RuleBasedStateMachine):
    """Two operators with a state each deploy the same stack; another stack's requests are there all the time.

    What one of them has the other neither deletes nor takes, unless its stack file asks for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.api = TpuApi(Cloud(TIMINGS))
        self.api.__enter__()
        os.environ[TPU] = self.api.url
        self.foreign = Stack(wanted("other", zones=ZONES[:1]), self.api.advance)
        self.foreign.up()
        self.theirs = dict(self.api.cloud.ledger.requests)
        self.operators = [Stack(wanted(), self._advance, wait_deadline_s=60) for _ in range(2)]
        self.kill_in = 0

    def teardown(self) -> None:
        self.api.close()
        assert not self.api.errors

    def _advance(self, seconds: float) -> None:
        """Waiting; the moment to be killed."""
        self.kill_in -= 1
        if self.kill_in == 0:
            raise _KilledError
        self.api.advance(seconds)

    @rule(who=st.integers(0, 1), kill_in=st.sampled_from([0, 0, 0, 1, 2, 3, 5]))
    def up(self, who: int, kill_in: int) -> None:
        operator, self.kill_in = self.operators[who], kill_in
        with self._leaves_the_others_alone(who), contextlib.suppress(ResourceError, _KilledError):
            operator.up()
            self.kill_in = 0
            self._agrees(operator)

    @rule(who=st.integers(0, 1), kill_in=st.sampled_from([0, 0, 1, 2]))
    def destroy(self, who: int, kill_in: int) -> None:
        operator, self.kill_in = self.operators[who], kill_in
        identity = self._identity(who)
        with self._leaves_the_others_alone(who), contextlib.suppress(ResourceError, _KilledError):
            operator.destroy()
            assert not identity or self._holder() != identity, "destroy has left something"

    @rule(who=st.integers(0, 1))
    def refresh(self, who: int) -> None:
        self.kill_in = 0
        self.operators[who].refresh()

    @rule(change=st.sampled_from(CHANGES))
    def change(self, change: dict[str, Any]) -> None:
        for operator in self.operators:
            operator.request = wanted(take_over=operator.request.take_over, **change)

    @rule(who=st.integers(0, 1))
    def ask_to_take_over(self, who: int) -> None:
        """Of what is there now, whosever it is."""
        operator = self.operators[who]
        labels = self._labels()
        operator.request = dataclasses.replace(operator.request, take_over=holding(labels) if labels else "")

    @rule()
    def preempt(self) -> None:
        for name in self._ours():
            with contextlib.suppress(ValueError):
                self.api.cloud.levers.preempt(name)

    @rule(why=st.sampled_from(["no luck"]))
    def fail(self, why: str) -> None:
        for name in self._ours():
            self.api.cloud.levers.fail_request(name, why)

    @rule(zone=st.sampled_from(ZONES), room=st.booleans())
    def capacity(self, zone: str, room: bool) -> None:
        self.api.cloud.levers.set_capacity(zone, "v6e", None if room else 0)

    @rule(seconds=st.sampled_from([1, 10, 100, 7200]))
    def time_passes(self, seconds: float) -> None:
        self.api.advance(seconds)

    @invariant()
    def never_doubled_and_never_anothers(self) -> None:
        global _steps
        _steps += 1
        assert len(self._ours()) <= 1
        assert {name: self.api.cloud.ledger.requests.get(name) for name in self.theirs} == self.theirs

    @contextlib.contextmanager
    def _leaves_the_others_alone(self, who: int) -> Iterator[None]:
        other, labels = self._identity(1 - who), self._labels()
        asked = self.operators[who].request.take_over
        before = [self.api.cloud.ledger.requests[name].number for name in self._ours()]
        yield
        if other and holder_of(labels) == other and holding(labels) != asked:
            assert [self.api.cloud.ledger.requests[name].number for name in self._ours()] == before, (
                "the other's is gone"
            )
            assert self._holder() == other, "the other's was taken"

    def _identity(self, who: int) -> str:
        guard = self.operators[who].state.get("guard")
        return str(guard["outputs"]["identity"]) if guard else ""

    def _labels(self) -> dict[str, str]:
        """Of the request that is there, with who has taken it over."""
        return next((labels_in(self.api.cloud, name) for name in self._ours()), {})

    def _holder(self) -> str:
        return holder_of(self._labels())

    def _ours(self) -> list[str]:
        return [name for name in self.api.cloud.ledger.requests if name not in self.theirs]

    def _agrees(self, operator: Stack) -> None:
        (name,) = self._ours()
        request, outputs = self.api.cloud.ledger.requests[name], operator.state["ready"]["outputs"]
        assert name == operator.request.path(outputs["zone"])
        assert (outputs["state"], request.state) == ("ACTIVE", "ACTIVE")
        for node in (self.api.cloud.ledger.nodes[node] for node in request.node_names):
            assert node.tier == operator.request.tier
            assert dict(node.message.metadata) == operator.request.metadata
            assert operator.request.labels.items() <= dict(node.message.labels).items()
            assert list(node.message.tags) == operator.request.tags
            assert node.message.description == operator.request.description
        assert operator.changes() == [], "a second preview is not empty"


@pytest.mark.sample(1)
def test_state_and_cloud_agree_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TPU, "")  # set by each example, and put back at the end
    wished = settings(
        max_examples=EXAMPLES,
        stateful_step_count=50,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(Stacks, settings=wished)
    print(f"{_steps} steps")
    assert _steps >= STEPS


# --- many, foreign, small pages, other clocks ---


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS), page_size=1) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


def add(api: TpuApi, inputs: QueuedResourceInputs, labels: dict[str, str]) -> None:
    """A request of somebody else, whatever its labels."""
    values = body(inputs, ZONES[0])
    values["tpu"]["node_spec"][0]["node"]["labels"] = labels
    message = types().QueuedResource(values)
    api.cloud.create_request(Place("p", ZONES[0]), inputs.name, types().QueuedResource.pb(message))


@pytest.mark.sample(1)
def test_32_slices_among_many_foreign_requests_in_pages_of_one(api: TpuApi) -> None:
    foreign = cases(40, 200)
    for number in range(foreign):
        label = {STACK_LABEL: "other"} if number % 2 else {}
        add(api, wanted(name=f"foreign-{number}"), label)
    before = set(api.cloud.ledger.requests)
    stack = Stack(wanted(nodes=32), api.advance, hosts=32)
    stack.up()
    assert len(api.cloud.ledger.nodes) == foreign + 32
    assert stack.state["ready"]["outputs"]["ready"] == 32
    assert stack.changes() == []
    stack.destroy()
    assert set(api.cloud.ledger.requests) == before
    assert len(api.cloud.ledger.nodes) == foreign


@pytest.mark.parametrize("skew_s", [-600, 600])
def test_clocks_ten_minutes_apart(monkeypatch: pytest.MonkeyPatch, skew_s: float) -> None:
    with TpuApi(Cloud(TIMINGS, now_s=time.time() + skew_s)) as api:
        monkeypatch.setenv(TPU, api.url)
        stack = Stack(wanted(), api.advance)
        stack.up()
        assert stack.changes() == []
        stack.destroy()
        assert api.cloud.ledger.requests == {}


def test_at_most_six_calls_per_minute_of_waiting(api: TpuApi) -> None:
    api.cloud.levers.stockout(ZONES[0], "v6e")
    stack = Stack(wanted(), api.advance, wait_deadline_s=3600)
    with pytest.raises(ResourceError, match=r"after 1h \(wait_deadline\); `pulumi up` goes on waiting"):
        stack.up()
    times = [call.time_s for call in api.calls_of("GetQueuedResource")]
    waiting = [second for second in times if second > times[0] + 60]
    assert len(waiting) <= 6 * 60
    gaps = {round(later - earlier, 3) for earlier, later in itertools.pairwise(waiting)}
    assert len(gaps) > 10, "without jitter many would come at once"
