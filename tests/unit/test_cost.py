"""Cost, quota and limits of a stack, as figures and as sentences."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import hardware
from infra.commands import preview
from infra.commands.preview import Preview
from infra.hardware import Api
from infra.paths import ROOT, stack_file
from infra.preview import compare, cost, limits, quota, stack_plan
from infra.preview.cost import ASSUMED_MFU, RunCost, active_parameters
from infra.preview.stack_facts import StackFacts
from infra.preview.stack_plan import decide
from infra.runs import run_plan
from infra.stack_file.settings import SettingsError, any_from_file, check, from_text
from infra.targets.tpu_vm.settings import TpuVmSettings
from tests.unit.test_tpu_vm_settings import values


def stack(**changes: Any) -> TpuVmSettings:
    settings = check("v6e-32", values(max_usd_per_hour=None) | changes)
    assert isinstance(settings, TpuVmSettings)
    return settings


def cost_of(settings: TpuVmSettings) -> cost.Cost:
    return cost.of(settings, run_plan.of_stack(settings))


def facts_of(settings: TpuVmSettings) -> StackFacts:
    facts = stack_plan.facts_of(settings)
    assert facts
    return facts


def quota_of(settings: TpuVmSettings) -> quota.QuotaNeed:
    need = quota.of(settings)
    assert need
    return need


def check_limits(settings: TpuVmSettings, buying: bool) -> tuple[str, ...]:
    return limits.check(settings, cost_of(settings), buying)


def test_hours_and_dollars_of_a_tier() -> None:
    row = hardware.find("v6e-32")
    price = row.price("us-east5")
    assert price and price.on_demand_usd and price.spot_usd
    assert cost_of(stack()).usd_per_hour == pytest.approx(row.chips * price.on_demand_usd)
    assert cost_of(stack(tier="spot")).usd_per_hour == pytest.approx(row.chips * price.spot_usd)
    assert cost_of(stack(price_usd_per_chip_hour=1.5)).usd_per_hour == 48
    eight = cost_of(stack(accelerator="v6e-8", slices=4))
    assert (eight.chips, eight.usd_per_hour) == (32, pytest.approx(row.chips * price.on_demand_usd))


def test_a_run_costs_its_max_runtime_or_what_its_steps_take() -> None:
    timed = cost_of(stack(max_runtime="10h"))
    assert (timed.hours, timed.hours_by) == (10, "max_runtime 10h")
    assert timed.usd_per_run == pytest.approx(864)
    settings = stack()
    spec, stepped = run_plan.of_stack(settings), cost_of(settings)
    flops = 6 * 8e9 * spec.tokens_per_step * spec.steps
    assert stepped.hours == pytest.approx(flops / (32 * 918e12 * ASSUMED_MFU) / 3600)
    own = cost_of(stack(training={"base_emb_dim": 128}))
    assert own.usd_per_run is None
    assert "unknown: steps of a model of unknown size; set max_runtime" in "\n".join(
        _block(training={"base_emb_dim": 8})
    )


STEPS = "1,000 steps at an assumed 20% MFU, start-up not counted"


@pytest.mark.parametrize(
    ("changes", "kind", "amount", "basis"),
    [
        ({}, RunCost.ESTIMATE, "about $25.70", STEPS),
        ({"max_runtime": "10h"}, RunCost.BOUND, "at most $864.00", "max_runtime 10h"),
        (
            {"tier": "guaranteed"},
            RunCost.UNKNOWN,
            "unknown",
            "no source prices tier guaranteed; set price_usd_per_chip_hour",
        ),
        (
            {"training": {"base_emb_dim": 8}},
            RunCost.UNKNOWN,
            "unknown",
            "steps of a model of unknown size; set max_runtime",
        ),
    ],
)
def test_what_a_run_costs_is_called_an_estimate_or_a_bound_wherever_it_stands(
    changes: dict[str, Any], kind: RunCost, amount: str, basis: str
) -> None:
    """The incident: "at most $25.70" followed from an assumed speed, and a run that was slower cost more."""
    settings = stack(**changes)
    shown = facts_of(settings)
    hours = f" = {shown.cost.hours or 0:,.1f} hours ({basis})"
    assert dict(shown.titled())["$/run"] == (f"unknown: {basis}" if kind is RunCost.UNKNOWN else amount + hours)
    lines = compare.lines(shown, shown)
    shown_to_all = Preview("v6e-32", "HEAD", shown.lines(), lines, (), (), new=False, facts=shown.to_json())
    assert f"| $ per run | {amount} ({basis}) | {amount} ({basis}) |" in preview.as_markdown(shown_to_all)
    document = json.loads(preview.as_json_text(shown_to_all))
    assert document["stack_report"]["usd_per_run_is"] == kind
    assert {"title": "$ per run", "then": f"{amount} ({basis})", "now": f"{amount} ({basis})"} in document[
        "then_and_now"
    ]


def test_the_readme_shows_what_is_printed() -> None:
    """Its block of v6e-32, and the rows that differ once the stack is a spot one."""
    text = stack_file("v6e-32").read_text()
    stacks = (text, text.replace("config:\n", "config:\n  slipway:tier: spot\n", 1))
    then, now = (facts_of(each) for each in (tpu_stack(stack) for stack in stacks))
    rows = [line for line in compare.lines(then, now) if line.changed]
    printed = preview.as_markdown(Preview("v6e-32", "HEAD~1", (), tuple(rows), None, (), new=False, facts=None))
    readme = (ROOT / "README.md").read_text()
    assert "\n".join(then.lines()) in readme
    assert "\n".join(line for line in printed.splitlines() if line.startswith("|")) in readme


def tpu_stack(text: str) -> TpuVmSettings:
    settings = from_text("v6e-32", text)
    assert isinstance(settings, TpuVmSettings)
    return settings


def test_the_table_of_all_stacks_says_what_the_block_says() -> None:
    rows = json.loads(preview._all_stacks(as_json=True, markdown=False))  # pyright: ignore[reportPrivateUsage]
    for row in rows:
        settings = any_from_file(row["stack"])
        if isinstance(settings, TpuVmSettings):
            block = facts_of(settings).titled()
            assert dict(block)["$/run"].startswith(row["$/run"] + " = "), row
            assert row["$/run"].startswith("about $")


def _block(**changes: Any) -> tuple[str, ...]:
    settings = stack(**changes)
    return facts_of(settings).lines()


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("llama2-7b", 7e9),
        ("llama3.1-405b", 405e9),
        ("qwen3-0.6b", 0.6e9),
        ("mixtral-8x7b", 56e9),  # all experts: more than a token meets
        ("qwen3-235b-a22b", 22e9),
        ("kimi-k2-1t", 1e12),
        ("qwen3-1.7b-base", 1.7e9),
        ("default", None),
        ("", None),
        ("envy-test", None),
    ],
)
def test_parameters_by_name(model: str, parameters: float | None) -> None:
    assert active_parameters(model) == parameters


@pytest.mark.parametrize("tier", ["reserved", "guaranteed"])
def test_what_no_source_prices_is_unknown_and_never_zero(tier: str) -> None:
    terms = {"tier": tier, "zones": ["us-east5-b"]} | ({"reservation": "r"} if tier == "reserved" else {})
    settings = stack(**terms)
    unpriced = cost_of(settings)
    assert (unpriced.usd_per_hour, unpriced.usd_per_run) == (None, None)
    text = "\n".join(facts_of(settings).lines())
    assert f"$/hour  unknown: no source prices tier {tier}; set price_usd_per_chip_hour" in text
    assert "quota   unknown: 32 chips in us-east5-b" in text


def test_quota_of_a_tier() -> None:
    row = hardware.find("v6e-32")
    stated = row.quota(Api.QUEUED_RESOURCE)
    assert stated
    assert quota_of(stack()).name == stated.on_demand
    assert quota_of(stack(tier="spot")).name == stated.spot
    assert quota_of(stack(accelerator="v6e-8", slices=16)).amount == 128
    v5p = stack(accelerator="v5p-128", zones=["us-east5-a"])
    assert str(quota_of(v5p)).endswith(": 128 cores in us-east5-a"), "64 chips are 128 cores"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_chips": 16}, "v6e-32 x 1 has 32 chips, max_chips is 16 in stacks/Pulumi.v6e-32.yaml; choose a smaller"),
        ({"max_usd_per_hour": 80}, "an hour costs $86.40 = 32 chips x $2.7, max_usd_per_hour is 80.00"),
        ({"max_usd_per_hour": 80}, "tier spot ($1.2758 per chip), or raise max_usd_per_hour"),
        ({"max_usd_per_hour": 40, "tier": "spot"}, "region asia-southeast1 ($0.2673 per chip)"),
        ({"max_usd_per_run": 20}, "a run costs about $25.70 = 32 chips x $2.7 x 0.3 hours (1,000 steps at an assumed "),
        ({"max_usd_per_run": 20}, "at an assumed 20% MFU, start-up not counted), max_usd_per_run is 20"),
        ({"max_usd_per_run": 20, "max_runtime": "10h"}, "a run costs at most $864.00 = 32 chips x $2.7 x 10.0 hours"),
        ({"max_usd_per_run": 20}, "choose fewer steps, a smaller accelerator, fewer slices"),
        ({"max_usd_per_hour": 9, "price_usd_per_chip_hour": 1}, "32 chips x $1.0, max_usd_per_hour is 9.00"),
    ],
)  # fmt: skip
def test_a_limit_stops_preview_and_up_with_numbers_and_levers(changes: dict[str, Any], message: str) -> None:
    settings = stack(**changes)
    for buying in (False, True):
        with pytest.raises(SettingsError) as caught:
            check_limits(settings, buying)
        assert message in str(caught.value)


def test_an_unknown_price_stops_only_up_and_only_where_there_is_a_limit() -> None:
    settings = stack(tier="guaranteed", max_usd_per_hour=100)
    (warning,) = check_limits(settings, buying=False)
    assert warning.startswith("`up` will refuse: max_usd_per_hour is 100.00")
    with pytest.raises(SettingsError, match="what an hour costs is unknown: no source prices tier guaranteed; set pr"):
        check_limits(settings, buying=True)
    free = stack(tier="guaranteed")
    assert check_limits(free, buying=True) == ()
    priced = stack(tier="guaranteed", max_usd_per_hour=100, price_usd_per_chip_hour=2)
    assert check_limits(priced, buying=True) == ()


def test_the_placeholder_project_previews_and_buys_nothing() -> None:
    assert any("project is still 'my-project'" in notice for notice in decide(stack()).notices)
    with pytest.raises(SettingsError, match=r"write your own in stacks/Pulumi.v6e-32.yaml"):
        decide(stack(), buying=True)
    decide(stack(project="real-project"), buying=True)
