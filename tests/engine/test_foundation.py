"""A foundation's life through the real commands and the stand-in for Google's provider; what a stack's mistakes say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from infra import names
from infra.emulated import STORAGE
from infra.emulators.object_store import ObjectStore
from infra.host_roles import bucket_roles
from infra.preview.planned_changes import changes
from infra.stack_file.settings import any_from_file, stack_names
from infra.standins.gcp import defaults
from infra.standins.gcp.store import STATE_VARIABLE
from infra.targets.foundation.settings import FoundationSettings
from infra.targets.foundation.state_bucket import TARGETS
from tests.engine.clone import ROOT, Clone, said
from tests.golden_files import check_golden, check_golden_section

SHIPPED = "foundation.us-central1"
STACK, CHANGED = "foundation.life", "foundation.changed"
NAMES = names.of("real-project", "us-central1", "slipway")
ON_PROJECT = {"roles/logging.logWriter", "roles/monitoring.metricWriter"}
BUCKETS = {*NAMES.buckets.values(), NAMES.state_bucket}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("foundation") / "clone")


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in makes things."""
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "cloud"))
    return tmp_path / "cloud"


def write(clone: Clone, stack: str = STACK, like: str = SHIPPED, **settings: Any) -> None:
    """A shipped stack file, of a project that is not the placeholder."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text())
    values = {"project": "real-project", "budget_usd": 500, "budget_billing_account": "012345-6789AB-CDEF01"} | settings
    document["config"] |= {f"slipway:{key}": value for key, value in values.items()}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


def pulumi(clone: Clone, verb: str, *arguments: str, stack: str = STACK) -> CompletedProcess[str]:
    return clone.pulumi(verb, stack, "--non-interactive", "--color", "never", *arguments)


def planned(clone: Clone) -> list[dict[str, Any]]:
    """What a preview would do, unchanged resources left out."""
    preview = pulumi(clone, "preview", "--json")
    assert preview.returncode == 0, said(preview)
    return [step for step in json.loads(preview.stdout)["steps"] if step["op"] != "same"]


def described(steps: list[dict[str, Any]]) -> str:
    """Steps as text: what is done to which resource, with its inputs."""
    lines: list[str] = []
    for step in sorted(steps, key=lambda step: step["urn"]):
        lines.append(f"{step['op']} {step['newState']['type']} {step['urn'].rpartition('::')[2]}")
        given: dict[str, Any] = defaults.without(step["newState"]["inputs"])
        lines += [f"  {key}: {json.dumps(given[key])}" for key in sorted(given)]
    return "".join(f"{line}\n" for line in lines)


def made(cloud: Path, kind: str) -> dict[str, dict[str, Any]]:
    """What there is of a kind, by its file's name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(cloud.glob(f"{kind}/*.json"))}


def hosts_may_read_what_orbax_asks_for(cloud: Path) -> None:
    """With roles on objects alone the first save ends in a 403 on storage.buckets.get."""
    sees = {
        grant["bucket"].removeprefix("b/")
        for grant in made(cloud, "storage/BucketIAMMember").values()
        if grant["role"] == "roles/storage.legacyBucketReader"
    }
    assert sees == {NAMES.checkpoints_bucket, NAMES.data_bucket}


def hosts_have_their_roles_in_the_emulated_cloud(store: ObjectStore) -> None:
    for kind, bucket in NAMES.buckets.items():
        assert store.policies.roles(bucket, NAMES.account_email) == bucket_roles(kind) | ON_PROJECT


def hosts_reach_each_other_by_subnet(cloud: Path, subnet: str) -> None:
    """Where a rule for their account does not hold, that of their subnet does."""
    rules = made(cloud, "compute/Firewall").values()
    for_everything = [rule for rule in rules if "targetServiceAccounts" not in rule]
    assert {(rule["sourceRanges"][0], str(rule["allows"][0].get("ports"))) for rule in for_everything} == {
        (subnet, "None"),
        ("35.235.240.0/20", "['22']"),
    }
    for_the_account = [rule for rule in rules if rule not in for_everything]
    assert {rule["targetServiceAccounts"][0] for rule in for_the_account} == {NAMES.account_email}
    assert len(for_the_account) == 2


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An emulated Cloud Storage without a bucket, where the stacks above a foundation look."""
    with ObjectStore(tmp_path / "buckets", ()) as store:
        monkeypatch.setenv(STORAGE, store.url)
        yield store


def test_life_of_a_foundation(clone: Clone, cloud: Path, store: ObjectStore) -> None:
    write(clone, subnet_cidr="10.7.0.0/20")
    assert pulumi(clone, "up").returncode == 0
    assert {path.name for path in store.root.iterdir() if path.is_dir()} == BUCKETS
    hosts_may_read_what_orbax_asks_for(cloud)
    hosts_have_their_roles_in_the_emulated_cloud(store)
    hosts_reach_each_other_by_subnet(cloud, "10.7.0.0/20")
    buckets = made(cloud, "storage/Bucket")
    assert set(buckets) == BUCKETS
    billed = [*buckets.values(), *made(cloud, "*/Repository").values(), *made(cloud, "*/Secret").values()]
    labels = {"slipway-owner": "me-example-com", "slipway-stack": "foundation_life"}
    assert [thing["labels"] for thing in billed] == [labels] * 9
    assert {grant["role"] for grant in made(cloud, "projects/IAMMember").values()} == ON_PROJECT
    assert len(made(cloud, "*/*IAMMember")) + len(made(cloud, "*/*IamMember")) == 9 + 2 + len(ON_PROJECT)

    write(clone, subnet_cidr="10.7.0.0/20", egress="nat")
    check_golden("foundation-egress-nat.txt", described(planned(clone)))
    (firewall,) = cloud.glob("compute/Firewall/*-hosts.json")
    firewall.write_text(json.dumps(json.loads(firewall.read_text()) | {"disabled": True, "description": "by hand"}))
    refreshed = pulumi(clone, "refresh", "--yes", "--skip-preview")
    assert "between-hosts updated" in said(refreshed)
    assert pulumi(clone, "up").returncode == 0
    assert made(cloud, "compute/RouterNat")
    assert "reach each other" in json.loads(firewall.read_text())["description"]

    refused = clone.run("pulumi", "destroy", "--yes", "--stack", STACK, "--color", "never")
    assert refused.returncode != 0
    said_of = {
        bucket for bucket in ("checkpoints", "data", "artifacts", "state") if f"Bucket::{bucket}'" in said(refused)
    }
    assert said_of, said(refused)  # the engine stops at the first few
    assert "cannot be deleted\n    because it is protected" in said(refused)
    assert made(cloud, "compute/Network")
    destroyed = pulumi(clone, "destroy", "--exclude-protected")
    assert "There are still" in said(destroyed)
    assert set(made(cloud, "storage/Bucket")) == BUCKETS
    assert not any(store.policies.roles(bucket, NAMES.account_email) for bucket in BUCKETS)
    assert len(made(cloud, "kms/CryptoKey")) == 1
    assert not [
        *cloud.glob("compute/*/*.json"),
        *cloud.glob("secretmanager/*/*.json"),
        *cloud.glob("serviceaccount/*/*"),
    ]

    assert pulumi(clone, "up").returncode == 0  # and back, on the buckets that stayed


# One other value for each key.
OTHER: dict[str, Any] = {
    "project": "another-project",
    "region": "us-east5",
    "prefix": "other",
    "owner": "you@example.com",
    "egress": "nat",
    "subnet_cidr": "10.1.0.0/20",
    "secrets": ["wandb"],
    "budget_usd": 900,
    "budget_billing_account": "ABCDEF-012345-6789AB",
    "soft_delete_days": 30,
    "allow": ["labels"],
}


@dataclass(frozen=True)
class Standing:
    """A foundation that the stand-in has made. cloud: where; bucket_first: what the first of two ups has made."""

    cloud: Path
    bucket_first: frozenset[str]


@pytest.fixture(scope="module")
def standing(clone: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Made as `slipway backend init` does it, without soft delete; then previews are made of it."""
    folder = tmp_path_factory.mktemp("standing")
    cloud = folder / "cloud"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv(STATE_VARIABLE, str(cloud))
        write(clone, CHANGED, soft_delete_days=0)
        targets = (part for target in TARGETS for part in ("--target", target))
        first = pulumi(clone, "up", *targets, stack=CHANGED)
        assert first.returncode == 0, said(first)
        bucket_first = frozenset(str(file.relative_to(cloud)) for file in cloud.glob("*/*/*.json"))
        rest = pulumi(clone, "up", stack=CHANGED)
        assert rest.returncode == 0, said(rest)
        yield Standing(cloud, bucket_first)


def test_state_bucket_comes_first_and_the_rest_follows_also_with_a_budget(standing: Standing) -> None:
    """The agent is asked for, and the budget's provider does not get in the way."""
    buckets = {Path(name).stem for name in standing.bucket_first if name.startswith("storage/Bucket/")}
    assert buckets == {NAMES.artifacts_bucket, NAMES.state_bucket}
    assert not any(name.startswith("billing/") for name in standing.bucket_first)
    assert len(made(standing.cloud, "billing/Budget")) == 1


def test_soft_delete_that_is_off_is_said_to_google(standing: Standing) -> None:
    """Left out, it would keep what is deleted for 7 days, and bill it."""
    buckets = made(standing.cloud, "storage/Bucket")
    assert buckets.keys() == BUCKETS
    assert {bucket["softDeletePolicy"]["retentionDurationSeconds"] for bucket in buckets.values()} == {0}


def test_an_agent_that_cannot_be_asked_for_ends_up_with_googles_sentence(clone: Clone, standing: Standing) -> None:
    """Somebody has disabled the API since; the engine's monitor answers the program with an error of its own."""
    write(clone, CHANGED, soft_delete_days=0)
    (service,) = standing.cloud.glob("*/Service/*storage.googleapis.com*.json")
    enabled = service.read_text()
    service.unlink()
    try:
        refused = pulumi(clone, "up", stack=CHANGED)
    finally:
        service.write_text(enabled)
    assert refused.returncode != 0
    assert "cannot ask for Cloud Storage's own account in real-project: " in said(refused)
    assert "Traceback" not in said(refused)


def test_every_key_has_another_value_to_be_tried() -> None:
    assert set(FoundationSettings.model_fields) == set(OTHER) | {"stack", "target"}, "a new key: give it another value"


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", OTHER)
def test_a_change_of_one_field_changes_what_the_golden_file_names(clone: Clone, standing: Standing, key: str) -> None:
    """Through the engine: which resources, in place or anew, because of which inputs."""
    changed: dict[str, Any] = {"soft_delete_days": 0} | {key: OTHER[key]}
    write(clone, CHANGED, **changed)
    preview = pulumi(clone, "preview", "--json", stack=CHANGED)
    if preview.returncode:  # which of them the engine names depends on which come first
        assert "unable to replace resource" in said(preview), said(preview)
        assert "marked for protection" in said(preview)
        lines = [f"{key}: refused, protected resources would be replaced"]
    else:
        found = sorted(changes(preview.stdout), key=lambda change: change.resource)
        lines = [f"{key}:" if found else f"{key}: nothing"]
        for change in found:
            because = f" ({', '.join(change.because)})" if change.because else ""
            lines.append(f"  {change.action} {change.resource}{because}")
    check_golden_section(f"changes/{SHIPPED}.txt", key, "".join(f"{line}\n" for line in lines))
    assert made(standing.cloud, "compute/Network"), "previews change nothing"


def test_shipped_foundations_differ_in_their_region_alone() -> None:
    """So that the life of one stands for all."""
    shipped = [any_from_file(name).model_dump() for name in stack_names() if name.startswith("foundation.")]
    assert len(shipped) == 3
    for settings in shipped:
        assert settings.pop("stack") == f"foundation.{settings.pop('region')}"
    assert all(settings == shipped[0] for settings in shipped)


def test_shipped_foundation_previews_without_an_account_and_goes_no_further(
    clone: Clone, cloud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STATE_VARIABLE)
    preview = pulumi(clone, "preview", stack=SHIPPED)
    assert preview.returncode == 0, said(preview)
    assert preview.stderr.startswith("note: Google's own argument checks did not run")
    assert "foundation of my-project in us-central1, as slipway-*; owner me@example.com" in preview.stdout
    refused = pulumi(clone, "up", stack=SHIPPED)
    assert refused.returncode != 0
    assert "project is still 'my-project', which only previews; write your own in stacks/" in said(refused)
    assert "Traceback" not in said(refused)
