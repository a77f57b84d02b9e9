"""The run spec: round trip, identity, and how many epochs a run is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from infra.runs import run_plan
from infra.stack_file.settings import from_file
from infra.tiers import Tier, interruption_s
from training.run_spec import (
    DataSpec,
    RunSpec,
    RunSpecError,
    default_run_name,
    differences,
    identity,
    parse,
    too_few_tokens,
)

DATA = DataSpec("/data/abc", "abc", 1)


def spec(**changes: Any) -> RunSpec:
    settings = from_file("local")
    training = settings.training | changes.pop("training", {})
    return run_plan.run_spec(settings.model_copy(update=changes | {"training": training}), Path("/runs"), DATA)


def test_round_trip() -> None:
    assert parse(spec().to_yaml()) == spec()


def test_a_bound_of_the_loss_reaches_the_hosts_in_the_same_run() -> None:
    bounded = spec(loss_spike=3.0)
    assert parse(bounded.to_yaml()).loss_spike == 3.0
    assert bounded.run_name == spec().run_name


def test_a_run_spec_of_before_there_were_bounds_has_none() -> None:
    assert "loss_spike" not in spec().to_yaml()
    assert parse(spec().to_yaml()).loss_spike is None


def test_a_run_spec_from_before_interruptions_were_expected_is_read() -> None:
    """Of a host of 0.1.0 that day 2 looks at."""
    text = spec().to_yaml().replace(f"interruption_s: {spec().interruption_s}\n", "")
    assert "interruption_s" not in text
    assert parse(text) == dataclasses.replace(spec(), interruption_s=0)


def test_how_often_it_saves_is_derived_unless_the_stack_says() -> None:
    assert "checkpoint_period" not in spec().maxtext
    assert spec(training={"checkpoint_period": 7}).maxtext["checkpoint_period"] == 7
    assert spec().interruption_s == 8 * 3600, "this machine"


def test_more_hosts_and_cheaper_terms_are_interrupted_more_often() -> None:
    assert interruption_s(Tier.SPOT, 1, 1) == pytest.approx(12 * 3600, rel=0.01)
    assert interruption_s(Tier.SPOT, 4, 4) == pytest.approx(3 * 3600, rel=0.01)
    of_hosts = [interruption_s(Tier.ON_DEMAND, 1, hosts) for hosts in (1, 64, 2048)]
    assert of_hosts == sorted(of_hosts, reverse=True)
    assert of_hosts[-1] == pytest.approx(3 * 3600, rel=0.05), "one in three hours, as was published"
    assert all(interruption_s(tier, 1, 1) > 0 for tier in Tier)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("version: 1", "version: 9"), "run spec has version 9, this code reads 1"),
        (lambda text: text.replace("steps: 250", "stps: 250", 1), "key 'stps' is unknown"),
        (lambda text: text.replace("slices: 1", "slices: one"), "key 'slices' is 'one', expected int"),
        (lambda text: text.replace("  content: abc\n", ""), "key 'data.content' is missing"),
        (lambda text: text.replace("  max_target_length: 256\n", ""), "key 'maxtext.max_target_length' is missing"),
        (lambda _: "3", "is not a mapping"),
    ],
)
def test_a_damaged_run_spec_names_the_key(edit: Any, message: str) -> None:
    with pytest.raises(RunSpecError) as caught:
        parse(edit(spec().to_yaml()))
    assert message in str(caught.value)


def test_more_steps_are_the_same_run() -> None:
    longer = spec(steps=800)
    assert longer.run_name == spec().run_name
    assert longer.maxtext["learning_rate_schedule_steps"] == 800


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"training": {"base_emb_dim": 256}}, ["training.base_emb_dim: 128 -> 256"]),
        ({"training": {"learning_rate": 1e-3}}, ["training.learning_rate: 0.006 -> 0.001"]),
        ({"training": {"per_device_batch_size": 2}}, ["training.per_device_batch_size: 1.0 -> 2.0"]),
    ],
)
def test_other_settings_are_another_run(changes: dict[str, Any], difference: list[str]) -> None:
    other = spec(**changes)
    assert other.run_name != spec().run_name
    assert differences(identity(spec()), identity(other)) == difference


def test_a_moved_clone_continues_its_run_and_other_data_does_not() -> None:
    moved = dataclasses.replace(spec(), output_directory="/elsewhere", data=DataSpec("/elsewhere/abc", "abc", 1))
    assert default_run_name(moved) == spec().run_name
    other = dataclasses.replace(spec(), data=DataSpec("/data/abd", "abd", 1))
    assert differences(identity(spec()), identity(other)) == ["data: abc -> abd"]


def test_the_number_one_is_the_same_however_it_is_written() -> None:
    assert (
        spec(training={"per_device_batch_size": 1.0}).run_name == spec(training={"per_device_batch_size": 1}).run_name
    )


def test_an_explicit_name_is_kept() -> None:
    assert spec(run_name="mine").run_name == "mine"


def test_tokens_and_epochs() -> None:
    assert spec().tokens_per_step == 8 * 256
    assert too_few_tokens(1000, 1000, 1) is None
    assert too_few_tokens(1500, 1000, 2) is None
    assert too_few_tokens(2500, 1000, 2) == (
        "the run needs 2,500 of 1,000 training tokens: 2.50 epochs, and max_epochs is 2; "
        "raise data_options.max_epochs, lower steps or give more data"
    )
