"""What `slipway emulate tpu` has for the stacks of a clone before anything is deployed."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest
import yaml

from infra import emulated, paths
from infra.artifacts.layout import SUMS, object_key, wheelhouse_key
from infra.doctor.google import of_google
from infra.emulators import emulated_cloud
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.cloud_projects import CloudProjects
from infra.emulators.google_apis import GoogleApis
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import TpuApi
from infra.emulators.tpu_hosts.view import SharedDirectory
from infra.host_roles import PROJECT_ROLES, bucket_roles
from infra.host_software import derive
from infra.host_software.derive import wheelhouse
from infra.host_software.wheels.python_made_here import archive_name
from infra.paths import STACKS
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import any_from_file, check, every
from tests.python_archive import python_archive


def test_a_stack_that_cannot_be_used_and_one_that_trains_here_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks, root = tmp_path / "stacks", tmp_path / "buckets"
    stacks.mkdir()
    for stack in ("v5e-8", "v6e-8", "v6e-32", "local"):
        shutil.copy(STACKS / f"Pulumi.{stack}.yaml", stacks)
    for stack in ("a-typo", "v6e-16"):
        (stacks / f"Pulumi.{stack}.yaml").write_text("config: {slipway:target: moon}")
    monkeypatch.setattr(stack_settings, "STACKS", stacks)
    monkeypatch.setattr(paths, "STACKS", stacks)

    usable = every(CloudTrainingSettings, skip_unusable=True)
    assert [settings.stack for settings in usable] == ["v5e-8", "v6e-32", "v6e-8"]
    buckets = emulated_cloud.fill(root, usable)
    assert len(buckets) == 4, "stacks of one region share theirs: one for artifacts, one for runs"
    artifacts = {settings.places.artifacts for settings in usable}
    runs = {settings.places.runs.removesuffix(f"/{settings.stack}") for settings in usable}
    assert {f"gs://{bucket}" for bucket in buckets} == artifacts | runs
    assert {f"gs://{path.relative_to(root).parts[0]}" for path in root.rglob(SUMS)} == artifacts


def test_hosts_have_the_roles_that_a_foundation_would_grant_until_somebody_takes_them_away() -> None:
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    account, own = "trainer@elsewhere.iam.gserviceaccount.com", "gs://our-own/runs"
    usual, other = check("v6e-8", values), check("v6e-8.o", values | {"runs": own, "service_account": account})
    assert isinstance(usual, CloudTrainingSettings) and isinstance(other, CloudTrainingSettings)
    names, policies = usual.names, BucketPolicies()
    emulated_cloud.grant(policies, [usual, other])
    on_project = frozenset(PROJECT_ROLES.values())
    for email in (names.account_email, account):
        assert policies.roles_on_project(usual.project, email) == on_project
        assert policies.roles(names.artifacts_bucket, email) == bucket_roles("artifacts") | on_project
    assert policies.roles(names.checkpoints_bucket, names.account_email) == bucket_roles("checkpoints") | on_project
    assert policies.roles("our-own", account) == bucket_roles("checkpoints") | on_project
    assert policies.roles("our-own", names.account_email) == on_project
    assert policies.roles(names.checkpoints_bucket, account) == on_project
    policies.set_of_bucket("our-own", {"bindings": []})
    emulated_cloud.grant(policies, [other])
    assert policies.roles("our-own", account) == on_project


@pytest.mark.parametrize("built", [True, False])
def test_a_stack_whose_hosts_boot_finds_the_wheelhouse_of_this_clone_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    """Where it is not built here `up` builds it and pushes it, as to any bucket."""
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:8470")
    monkeypatch.setattr(emulated_cloud, "ARTIFACTS", tmp_path / "artifacts")
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    settings = check("vcpu-2", values | {"accelerator": "vcpu-2", "zones": ["us-east5-b"]})
    assert isinstance(settings, CloudTrainingSettings)
    identifier, digest = wheelhouse(settings, "cpu").id, "0" * 64
    files = {wheelhouse_key(identifier): f"{digest}  a.whl\n", object_key(digest, "a.whl"): "content"}
    for key, text in files.items() if built else ():
        (tmp_path / "artifacts" / key).parent.mkdir(parents=True)
        (tmp_path / "artifacts" / key).write_text(text)
    artifacts, _ = emulated_cloud.fill(tmp_path / "buckets", [settings])
    bucket = tmp_path / "buckets" / artifacts
    found = {str(path.relative_to(bucket)): path.read_text() for path in bucket.rglob("*") if path.is_file()}
    assert found == (files if built else {})


def test_hosts_that_boot_have_no_python_but_the_one_that_the_emulator_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has packed none they get the locked release, as every TPU VM."""
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:8470")
    monkeypatch.setattr(derive, "PYTHONS", tmp_path)
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    booting = check("vcpu-2", values | {"accelerator": "vcpu-2", "zones": ["us-east5-b"]})
    pretended = check("v6e-8", values)
    assert isinstance(booting, CloudTrainingSettings) and isinstance(pretended, CloudTrainingSettings)
    locked = wheelhouse(booting, "cpu").python
    assert locked and locked.path is None
    packed = python_archive(tmp_path, name=archive_name())
    own, of_tpu = wheelhouse(booting, "cpu").python, wheelhouse(pretended, "tpu").python
    assert own and of_tpu and (own.path, of_tpu.path) == (packed, None)


def test_hosts_that_boot_have_directories_of_this_machine_that_their_stack_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(emulated.TPU, "http://127.0.0.1:8470")
    document = yaml.safe_load((STACKS / "Pulumi.v6e-8.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in document.items()}
    here = {"accelerator": "vcpu-2", "zones": ["us-east5-b"], "runs": str(tmp_path)}
    booting, pretended = check("vcpu-2", values | here), check("v6e-8", values)
    assert isinstance(booting, CloudTrainingSettings) and isinstance(pretended, CloudTrainingSettings)
    shared = emulated_cloud.shared_directories([booting, pretended])
    assert shared == [SharedDirectory(tmp_path / "vcpu-2", is_writable=True)]


def test_doctor_asks_the_projects_of_the_emulated_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is there, until a lever takes it away: a quota at the TPU API, a permission at the project."""
    name, settings = "TPUV6EPerProjectPerZoneForTPUAPI", any_from_file("v6e-32")
    assert isinstance(settings, CloudTrainingSettings)
    settings = settings.model_copy(update={"project": "try-it"})
    monkeypatch.setenv("HOME", str(tmp_path))

    def found() -> dict[str, tuple[str, str]]:
        return {each.what: (each.verdict, each.said) for each in of_google(settings)}

    with TpuApi() as api, GoogleApis(CloudProjects(cloud=api.cloud)) as google, ObjectStore(tmp_path) as store:
        google.write_credentials(tmp_path / "key.json")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        monkeypatch.setenv(emulated.QUESTIONS, google.url)
        monkeypatch.setenv(emulated.STORAGE, store.url)
        said = found()
        assert [said[what][0] for what in ("project", "APIs", "roles", "quota")] == ["ok"] * 4
        assert said["quota"][1].startswith(f"{name}: unlimited in us-east5-b, unlimited in us-east5-a")
        for zone in settings.zones:
            limit = {"project": "try-it", "place": zone, "family": "v6e", "units": 16}
            httpx.post(f"{api.url}/_/quota", json=limit).raise_for_status()
        assert found()["quota"][1].startswith(f"{name}: 16 in us-east5-b, 16 in us-east5-a, but 32 chips are needed")
        refused = ["tpu.nodes.create", "cloudquotas.quotas.get"]
        httpx.post(f"{google.url}/_/refused", json={"permissions": refused}).raise_for_status()
        said = found()
        assert said["roles"][1].endswith("have an owner of try-it give you roles/tpu.admin")
        assert "have it granted (roles/cloudquotas.viewer)" in said["quota"][1]
