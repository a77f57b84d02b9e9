"""Settings and plan of a foundation: what a stack file may say, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from infra.commands.main import app
from infra.stack_file.settings import SettingsError, check, from_engine, from_file
from infra.targets.foundation import plan as foundation
from infra.targets.foundation.settings import Egress, FoundationSettings

STACK = "foundation.us-central1"
LEAST = {"target": "foundation", "project": "my-project", "region": "us-central1", "owner": "ada@example.com"}
ACCOUNT = "012345-6789AB-CDEF01"


def made(**values: Any) -> FoundationSettings:
    settings = check(STACK, LEAST | values)
    assert isinstance(settings, FoundationSettings)
    return settings


def test_least_that_a_foundation_needs() -> None:
    settings = made()
    assert (settings.egress, settings.prefix, settings.secrets) == (Egress.NONE, "slipway", ("wandb", "huggingface"))
    plan = foundation.plan(settings)
    assert plan.budget is None
    assert not plan.network.nat
    assert "billingbudgets" not in plan.services.names
    assert foundation.notices(settings) == (
        "foundation of my-project in us-central1, as slipway-*; owner ada@example.com; "
        "hosts reach Google and each other, and no internet",
        "secrets (wandb, huggingface) are empty until: gcloud secrets versions add slipway-us-central1-<name> "
        "--project my-project --data-file=-",
    )


def test_a_foundation_without_secrets_says_nothing_of_them() -> None:
    (about,) = foundation.notices(made(secrets=[]))
    assert about.startswith("foundation of my-project in us-central1")


def test_engine_hands_over_text_and_means_the_same() -> None:
    config = {f"slipway:{key}": value for key, value in LEAST.items()}
    config |= {"slipway:secrets": '["wandb"]', "slipway:budget_usd": "500", "slipway:budget_billing_account": ACCOUNT}
    config |= {"slipway:steps": "0", "slipway:accelerator": "", "slipway:egress": "none"}  # defaults of Pulumi.yaml
    assert from_engine(STACK, config) == made(secrets=["wandb"], budget_usd=500, budget_billing_account=ACCOUNT)


def test_budget_counts_what_carries_the_owners_label() -> None:
    plan = foundation.plan(made(budget_usd=500, budget_billing_account=ACCOUNT))
    assert plan.budget is not None
    assert (plan.budget.usd_per_month, plan.budget.label) == (500, ("slipway-owner", "ada-example-com"))
    assert "billingbudgets" in plan.services.names
    assert foundation.plan(made(budget_usd=0)).budget is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"project": "My-Project"}, "project 'My-Project' cannot be a project id: it has upper-case letters"),
        ({"region": "us-central1-a"}, "region 'us-central1-a' is a zone; give its region, us-central1"),
        ({"prefix": "a" * 20}, "has 20 characters; give at most 19"),
        ({"owner": "@"}, "has no letter or digit; give a name or an e-mail address"),
        ({"secrets": ["WANDB=abc"]}, "'WANDB=abc' cannot name a secret"),
        ({"secrets": ["wandb", "wandb"]}, "a secret is named twice"),
        ({"subnet_cidr": "8.8.8.0/24"}, "'8.8.8.0/24' is not private"),
        ({"subnet_cidr": "10.0.0.0/30"}, "'10.0.0.0/30' has room for 0 hosts"),
        ({"subnet_cidr": "10.0.0.0/32"}, "'10.0.0.0/32' has room for 0 hosts"),
        ({"subnet_cidr": "10.0.0.0"}, "'10.0.0.0' is one address, not a range of them; write one like 10.0.0.0/20"),
        ({"region": "us-centrl1"}, "region 'us-centrl1' has no zone in infra/hardware.yaml; nearest: us-central1. Fix"),
        ({"subnet_cidr": "10.0.0.1/20"}, "is no range of IPv4 addresses"),
        ({"budget_usd": 500}, "budget_usd and budget_billing_account go together"),
        ({"budget_usd": 5, "budget_billing_account": "mine"}, "cannot be a billing account; give one"),
        ({"soft_delete_days": 3}, "soft_delete_days is 3"),
        ({"soft_delete_days": -1}, "give 7 to 90, or 0, which brings nothing back"),
        ({"soft_delete_days": 91}, "give 7 to 90, or 0, which brings nothing back"),
        ({"allow": ["no-externalip"]}, "is no rule; nearest: no-external-ip"),
        ({"egress": "yes"}, "input should be 'none' or 'nat'"),
        ({"steps": 5}, "unknown key 'steps'"),
    ],
)
def test_mistake_is_one_sentence_that_names_the_file(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(**values)
    assert sentence in str(refused.value)
    assert f"stacks/Pulumi.{STACK}.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("days", [0, 7, 90])
def test_soft_delete_is_off_or_as_long_as_cloud_storage_takes(days: int) -> None:
    assert foundation.plan(made(soft_delete_days=days)).storage.soft_delete_days == days
    config = {f"slipway:{key}": value for key, value in (LEAST | {"soft_delete_days": str(days)}).items()}
    assert from_engine(STACK, config) == made(soft_delete_days=days)


def test_soft_delete_that_is_off_is_said_before_up() -> None:
    assert "what is deleted from a bucket is gone at once" in foundation.notices(made(soft_delete_days=0))[0]


def test_budget_counts_against_the_quota_of_its_project() -> None:
    """With a person's credentials the Budget API answers 403 until a quota project is named."""
    plan = foundation.plan(made(budget_usd=500, budget_billing_account=ACCOUNT))
    assert plan.budget is not None
    assert plan.budget.quota_project == "my-project"


def test_what_trains_is_not_asked_of_a_foundation() -> None:
    with pytest.raises(SettingsError, match="trains nothing"):
        from_file(STACK)


def test_a_state_bucket_of_a_foundation_without_a_file_is_one_sentence() -> None:
    done = CliRunner().invoke(app, ["backend", "init", "foundation.mars"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert done.output.startswith("error: stack 'foundation.mars' has no file stacks/Pulumi.foundation.mars.yaml")


values = st.fixed_dictionaries(
    {"target": st.just("foundation")},
    optional={
        "project": st.sampled_from(["my-project", "example.com:x", "X"]) | st.text(max_size=35),
        "region": st.sampled_from(["us-central1", "europe-west4", "us"]) | st.text(max_size=12),
        "prefix": st.text(alphabet="ab-", max_size=25),
        "owner": st.text(max_size=80),
        "egress": st.sampled_from(["none", "nat", "all"]),
        "subnet_cidr": st.sampled_from(["10.0.0.0/20", "10.0.0.0/33"]) | st.text(max_size=20),
        "secrets": st.lists(st.sampled_from(["wandb", "huggingface", "A"]), max_size=3),
        "budget_usd": st.integers(-1, 10) | st.just(""),
        "budget_billing_account": st.sampled_from(["", ACCOUNT, "x"]),
        "soft_delete_days": st.integers(0, 100),
        "allow": st.lists(st.sampled_from(["mtu", "nothing"]), max_size=2),
    },
)


@given(values)
def test_any_stack_file_is_a_plan_or_one_sentence(given: dict[str, Any]) -> None:
    try:
        settings = check(STACK, given)
    except SettingsError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(settings, FoundationSettings)
    assert vars(foundation.plan(settings).network.names) == vars(settings.names)
