"""What a target leaves out: a sentence with the way on at the command, and nothing asked or shown elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.emulated import TPU
from infra.names import PLACEHOLDER_PROJECT
from infra.operate import billed_places
from infra.operate.live_view import summary
from infra.operate.stack_status import stack_status
from infra.preview.stack_plan import decide
from infra.providers import made_at
from infra.providers.inputs import StackGuardInputs
from infra.providers.resource import ResourceError
from infra.providers.stack_guard_resource import StackGuardResource
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import Settings, SettingsError, every, parts_unsaid
from infra.stack_file.terms import Terms
from infra.targets import registry
from infra.targets.contract import TrainingContract
from infra.targets.errors import NotOfferedError
from infra.targets.hosts import Hosts, HostView
from infra.targets.places import Places
from infra.targets.registry import Target
from tests.unit.emulated_engine import EmulatedContext
from training.run_spec import RunSpec

SPEC = RunSpec("s", "run", "cpu", 1, 1, 2, 10, "gs://ours", None, {"per_device_batch_size": 1, "max_target_length": 8})
HOST = HostView(0, 0, "host-0", "finished", "", "0" * 16, 1.0, step=10, steps=10)


class FewestWords(Hosts):
    """Only what has to be said."""

    def states(self) -> Sequence[HostView]:
        return [HOST]

    def run_spec(self) -> RunSpec:
        return SPEC


@pytest.mark.parametrize(
    ("verb", "ask"),
    [
        ("logs", lambda hosts: hosts.logs(0, follow=False)),
        ("stop", lambda hosts: hosts.stop(print)),
        ("start", lambda hosts: hosts.start()),
        ("replay", lambda hosts: hosts.replay(0)),
        ("purge", lambda hosts: hosts.kept_runs()),
        ("purge", lambda hosts: hosts.delete_kept_runs()),
    ],
)
def test_a_verb_that_a_targets_hosts_leave_out_is_a_sentence(verb: str, ask: Callable[[Hosts], object]) -> None:
    with pytest.raises(NotOfferedError) as refused:
        ask(FewestWords("s"))
    assert str(refused.value) == f"the target of stack 's' does not offer `{verb}` (docs/runbook.md)"


def test_a_target_that_leaves_its_hosts_out_says_what_shows_them() -> None:
    local = registry.of(Target.LOCAL)
    assert isinstance(local, TrainingContract)
    with pytest.raises(NotOfferedError, match=r"pulumi preview --stack s --diff"):
        TrainingContract.hosts(local, "s")


def test_hosts_without_metrics_still_say_how_the_run_ended_and_where_it_lies() -> None:
    hosts = FewestWords("s")
    said = summary(hosts, stack_status("s", hosts.states()), 80).plain
    assert said.startswith("s finished: step 10 of 10\n")
    assert "checkpoints  gs://ours/run/checkpoints\n" in said
    assert "loss" not in said, "there is no curve to draw"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["status", "foundation.us-east5"],
            "stack 'foundation.us-east5' trains nothing: it holds what other stacks stand on",
        ),
        (
            ["logs", "v6e-32"],
            "the target of stack 'v6e-32' does not offer `logs` (docs/runbook.md)",
        ),
        (
            ["replay", "v6e-32", "--step", "7"],
            "a replay is offered where hosts are processes of this machine (target local): the target of stack "
            "'v6e-32' does not offer `replay` (docs/runbook.md)",
        ),
        (
            ["backend", "init", "local"],
            "target local has no bucket for Pulumi's state; name a foundation, which has one",
        ),
    ],
)
def test_a_command_on_a_stack_whose_target_has_no_such_thing(words: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.output) == (2, f"error: {sentence}\n")


class Half(CloudSettings, Settings):
    """Paid for, as CloudSettings are, and without a word of limits."""

    @property
    def places(self) -> Places:
        return self.placed("/artifacts", "/runs")


class Unsaid(Terms):
    """Leaves out what has to be said."""


@pytest.mark.parametrize("target", [Target.LOCAL, Target.TPU_VM])
def test_what_is_paid_for_cannot_go_without_limits(target: Target) -> None:
    """Such a target's stacks were bought whatever they cost: what has no limits has none to pass."""
    values = {"stack": "s", "target": target, "owner": "me", "project": "try-it", "accelerator": "v6e-8", "steps": 1}
    with pytest.raises(SettingsError, match=f"stacks of target {target} are paid for, but their settings have no limi"):
        decide(Half.model_validate(values | {"data": "synthetic"}))


def test_settings_that_leave_something_out_are_found_before_they_are_asked() -> None:
    """An AttributeError, or a TypeError of an abstract class, was all that a command said."""
    assert parts_unsaid(Unsaid) == ["api", "billed_in", "offered_as", "places"]
    assert [parts_unsaid(target.settings()) for target in registry.every()] == [[]] * len(Target)


def test_a_guard_keeps_its_identity_whatever_changes() -> None:
    """Without it nothing would be told apart, and `destroy` could not end what its state has made."""
    kept = StackGuardResource().update(
        EmulatedContext(print, [], 60), "p/s", {"identity": "i"}, StackGuardInputs("tpu-vm", "p", "s", "me")
    )
    assert kept == {"identity": "i"}


def test_a_guard_asks_only_where_its_stack_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed `up` had left was looked for at another endpoint, not found there, and ran on."""
    guard, state = StackGuardResource(), {"target": "tpu-vm", "place": "p", "stack": "s", "identity": "i"}
    context = EmulatedContext(print, [], 60)
    for here, elsewhere in (("http://127.0.0.1:1", "http://127.0.0.1:2"), ("http://127.0.0.1:1", ""), ("", "http://x")):
        monkeypatch.setenv(TPU, here)
        made = state | made_at.stamp(guard, state)
        made_at.check(guard, context, "p/s", made)
        monkeypatch.setenv(TPU, elsewhere)
        with pytest.raises(
            ResourceError, match=f"was made at {here or 'Google'}, but {elsewhere or 'Google'} would be"
        ):
            made_at.check(guard, context, "p/s", made)


def test_a_google_project_is_asked_once_of_each_target_that_bills_there() -> None:
    each_of = [registry.paid()[name] for name in ("tpu-vm", "gke-tpu", "vertex")]
    stacks = [each for each in every(Terms) if each.billed_in == PLACEHOLDER_PROJECT]
    assert len(stacks) > 1
    asked = [(target, PLACEHOLDER_PROJECT) for target in each_of]
    assert billed_places.of(stacks) == billed_places.named(PLACEHOLDER_PROJECT, stacks) == asked
    assert billed_places.named("another", stacks) == [(target, "another") for target in each_of]


def test_a_name_that_no_target_has_is_of_none() -> None:
    assert registry.named("moon") is None
    assert {contract.name for contract in registry.every()} == set(Target)
