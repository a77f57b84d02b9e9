"""docs/first-project.md against the code: its roles, APIs, stacks and commands are those that there are."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.testing import CliRunner

from infra import host_roles
from infra.commands.main import app
from infra.engine import command_line
from infra.paths import ROOT
from infra.preview import quota
from infra.stack_file.settings import any_from_file, check
from infra.standins.gcp import schema
from infra.targets.foundation import doctor as foundation_doctor
from infra.targets.foundation.components import identity
from infra.targets.foundation.settings import FoundationSettings
from infra.targets.tpu_vm import doctor as tpu_vm_doctor
from infra.targets.tpu_vm.settings import TpuVmSettings

PAGE = (ROOT / "docs" / "first-project.md").read_text()
FOUNDATION, SIZE = "foundation.us-east5", "v6e-8"


def section(title: str) -> str:
    """From a heading to the next one."""
    return re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def roles(text: str) -> set[str]:
    return set(re.findall(r"roles/[\w.]+", text))


def commands() -> list[list[str]]:
    """Every line of the page's blocks, split as a shell does."""
    blocks = "".join(re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    return [shlex.split(line) for line in blocks.replace("\\\n", " ").splitlines()]


def of(tool: str) -> list[list[str]]:
    return [words[1:] for words in commands() if words[0] == tool]


def test_who_makes_a_foundation_needs_what_doctor_asks_for() -> None:
    tables = (
        foundation_doctor.PERMISSIONS,
        foundation_doctor.NAT,
        foundation_doctor.BUDGET,
        foundation_doctor.BILLING_ACCOUNT,
    )
    assert roles(section("Who makes the foundation")) == {role for table in tables for role in table.values()}


def test_who_trains_needs_what_doctor_asks_for() -> None:
    assert roles(section("Who trains")) >= set(tpu_vm_doctor.PERMISSIONS.values())


def test_hosts_may_do_what_the_foundation_grants() -> None:
    granted = {*host_roles.BUCKET_ROLES.values(), *host_roles.PROJECT_ROLES.values()}
    granted |= {host_roles.SEES_BUCKET, identity.REPOSITORY_ROLE, identity.SECRET_ROLE}
    assert roles(section("What hosts may do")) == granted


def test_apis_are_those_that_the_foundation_enables() -> None:
    budget = {"budget_usd": 500, "budget_billing_account": "012345-6789AB-CDEF01"}
    values = {"target": "foundation", "project": "my-project", "region": "us-east5", "owner": "me"}
    settings = check(FOUNDATION, values | budget)
    assert isinstance(settings, FoundationSettings)
    (enable,) = [words for words in of("gcloud") if words[:2] == ["services", "enable"] and len(words) > 5]
    named = [word.removesuffix(".googleapis.com") for word in enable if word.endswith(".googleapis.com")]
    assert sorted(named) == sorted(settings.services)
    assert named[:2] == ["serviceusage", "cloudresourcemanager"], "those that `up` itself needs before it enables any"


def test_example_is_a_size_of_the_foundations_region_with_its_quota() -> None:
    foundation, size = any_from_file(FOUNDATION), any_from_file(SIZE)
    assert isinstance(foundation, FoundationSettings)
    assert isinstance(size, TpuVmSettings)
    assert size.place == foundation.region
    need = quota.of(size)
    assert need
    assert f"--quota-id={need.name} --dimensions=zone={need.places[0]} --preferred-value={need.amount} " in PAGE
    for secret in foundation.secrets:
        assert f"gcloud secrets versions add {foundation.names.secret_id(secret)} " in PAGE


@pytest.mark.parametrize("words", of("slipway"), ids=" ".join)
def test_slipway_has_the_command(words: list[str]) -> None:
    asked = CliRunner().invoke(app, [*words, "--help"])
    assert asked.exit_code == 0, asked.output


@pytest.mark.parametrize("words", of("pulumi"), ids=" ".join)
def test_pulumi_has_the_command(words: list[str]) -> None:
    if words[0] == "plugin":
        assert words == ["plugin", "install", "resource", "gcp", schema.version()]
        return
    command = command_line.parse(words)
    assert command.name in command_line.PREVIEWS | command_line.MUTATING
    assert command.stack in (FOUNDATION, SIZE)


def test_only_these_tools_are_named() -> None:
    assert {words[0] for words in commands()} == {"gcloud", "pulumi", "slipway"}
