"""`slipway doctor`, finding by finding: a machine that lacks something, and what Google does not tell."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from infra.doctor import this_machine
from infra.doctor.cloud_training import quota_finding, training_needs
from infra.doctor.google import anybody, of_google
from infra.emulated import QUESTIONS
from infra.emulators.google_apis import ACCOUNT, EmulatedProject, GoogleApis
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.engine import google_plugin, plugin_version
from infra.google_cloud import google_project
from infra.google_cloud.google_project import Account, GoogleError, GoogleProject
from infra.preview import quota
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import any_from_file
from infra.standins.gcp import schema
from infra.targets.foundation import doctor as foundation_doctor
from infra.targets.needs import Finding
from infra.targets.registry import Target
from infra.targets.tpu_vm import doctor as tpu_vm_doctor
from infra.targets.vertex import doctor as vertex_doctor
from tests.unit import test_vertex_settings as vertex
from tests.unit.test_tpu_vm_settings import made

OURS = "infra/providers/pulumi-resource-slipway"
QUOTA = "TPUV6EPerProjectPerZoneForTPUAPI"
BUCKET = "slipway-artifacts-us-east5-my-project"


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # Google's switch: no metadata server is looked for
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedProject]:
    project = EmulatedProject("my-project", services={"cloudquotas"})
    with GoogleApis(project) as server:
        server.write_credentials(tmp_path / "key.json")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        monkeypatch.setenv(QUESTIONS, server.url)
        yield project


def asked() -> GoogleProject:
    return GoogleProject("my-project", google_project.account())


@pytest.fixture
def real_project(
    project: EmulatedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmulatedProject]:
    """One whose name is not that of documentation, which is asked nothing; with Cloud Storage."""
    project.project = "real-project"
    with ObjectStore(tmp_path / "buckets", ()) as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield project


def findings_of(stack: str, **changed: Any) -> dict[str, Finding]:
    settings = any_from_file(stack)
    assert isinstance(settings, CloudSettings)
    found = of_google(settings.model_copy(update={"project": "real-project"} | changed))
    return {each.what: each for each in found}


# --- this machine ---


def test_an_engine_that_is_not_there_or_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "ROOT", tmp_path)
    found = this_machine.engine_finding()
    assert (found.verdict, found.said) == ("wrong", "no Pulumi engine yet; run: make setup")
    pulumi = executable(tmp_path / "engine" / "pulumi", "echo 'no such file: libc' >&2; exit 127")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "engine-path").write_text(str(pulumi.parent))
    found = this_machine.engine_finding()
    assert (found.verdict, found.said) == ("wrong", f"{pulumi} does not start (no such file: libc); run: make setup")
    executable(pulumi, "echo v3.1.0")
    found = this_machine.engine_finding()
    assert (found.verdict, found.said) == ("ok", "pulumi v3.1.0")


def test_without_uv_it_says_so_once_and_asks_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "UV", tmp_path / "uv")
    found = this_machine.uv_finding()
    assert (found.verdict, found.said) == ("wrong", "there is none in .venv/bin; run: make setup")
    for finding in (this_machine.environment_finding(), *this_machine.locks_findings(None)):
        assert (finding.verdict, finding.said) == ("not asked", "there is no uv to ask")


def test_a_uv_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "UV", executable(tmp_path / "uv", "exit 3"))
    found = this_machine.uv_finding()
    assert (found.verdict, found.said) == ("wrong", "it does not start (exit code 3); run: make setup")


def test_an_environment_that_differs_from_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As uv says it: by its exit code."""
    monkeypatch.setattr(this_machine, "UV", executable(tmp_path / "uv", '[ "$1" != sync ]'))
    found = this_machine.environment_finding()
    assert (found.verdict, found.said) == ("wrong", ".venv differs from uv.lock; run: make setup")
    assert this_machine.uv_finding().verdict == "ok"


@pytest.mark.parametrize("export", ["exit 1", "echo 'packages = []'"])
def test_a_lock_of_hosts_that_is_not_the_projects_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: str
) -> None:
    uv = executable(tmp_path / "uv", f'if [ "$1" = export ]; then {export}; fi')
    monkeypatch.setattr(this_machine, "UV", uv)
    for settings, lock in ((None, "pylock.cpu-stable.toml"), (made(), "pylock.tpu-stable.toml")):
        (found,) = this_machine.locks_findings(settings)
        assert (found.verdict, found.said) == (
            "wrong",
            f"training/locks/{lock} is not what training/uv.lock says; run: make lock",
        )


def test_our_plugin_without_the_right_to_be_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "ROOT", tmp_path)
    executable(tmp_path / OURS, "").chmod(0o644)
    found = this_machine.plugin_finding(None)
    assert (found.verdict, found.said) == ("wrong", f"{OURS} cannot be executed; run: chmod +x {OURS}")
    subprocess.run(found.said.partition("run: ")[2].split(), cwd=tmp_path, check=True)
    assert "cannot be executed" not in this_machine.plugin_finding(None).said


def test_googles_plugin_where_the_engine_has_installed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is one that a command before has got, so it is not started."""
    version = schema.version()
    plugin = executable(tmp_path / "plugins" / f"resource-gcp-v{version}" / google_plugin.EXECUTABLE, "exit 1")
    stamp = [plugin.stat().st_mtime_ns, plugin.stat().st_size]
    memory = tmp_path / "memory.json"
    memory.write_text(json.dumps({str(plugin): {"stamp": stamp, "version": version, "sentence": ""}}))
    monkeypatch.setattr(plugin_version, "_MEMORY", memory)
    foundation = any_from_file("foundation.us-east5")
    found = this_machine.plugin_finding(foundation)
    assert (found.verdict, found.said.startswith("Google's is not installed, and its stand-in only")) == ("wrong", True)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    found = this_machine.plugin_finding(foundation)
    assert (found.verdict, found.said) == ("ok", f"Google's, {plugin}")
    assert this_machine.plugin_finding(made()).said == f"ours, and Google's, {plugin}"


def test_locks_of_a_backend_of_ones_own_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://ours")
    found = this_machine.stack_lock_finding("v6e-32")
    assert found.verdict == "not asked"
    assert found.said.endswith("a backend of your own, whose locks `pulumi cancel` removes")


# --- Google ---


def test_credentials_that_nobody_has_tried_are_said_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there are none, and previews and target local need none" in anybody().said
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token")
    assert (anybody().verdict, anybody().said) == ("ok", "there are some; to test them: slipway doctor STACK")


def test_a_target_that_needs_nothing_of_a_project_gets_no_question_about_it(project: EmulatedProject) -> None:
    """Not even whether the project is there; the emulated one would refuse."""
    settings = made(project="their-project").model_copy(update={"target": Target.LOCAL})
    (found,) = of_google(settings)
    assert (found.what, found.verdict, found.said) == ("credentials", "ok", ACCOUNT)


def test_what_is_counted_against_no_known_quota_is_not_asked(project: EmulatedProject) -> None:
    found = quota_finding(asked(), None)
    assert (found.verdict, found.said) == ("not asked", "nothing of it is counted against a quota")
    reserved = made(tier="reserved", reservation="r", zones=["us-east5-b"])
    found = quota_finding(asked(), quota.of(reserved))
    assert (found.verdict, found.said) == ("not asked", "no source says which quota holds these 32 chips")


def test_a_quota_without_a_value_here_is_neither_enough_nor_too_little(project: EmulatedProject) -> None:
    project.quotas = {QUOTA: {"us-central1-a": 4096}}
    found = quota_finding(asked(), quota.of(made()))
    assert (found.verdict, found.said) == ("not asked", f"{QUOTA} has no value for us-east5-b or us-east5-a")
    project.quotas[QUOTA]["us-east5-a"] = -1
    found = quota_finding(asked(), quota.of(made()))
    assert (found.verdict, found.said.partition(", needs")[0]) == ("ok", f"{QUOTA}: unlimited in us-east5-a")


def test_a_foundation_that_may_not_be_looked_at_is_not_said_to_be_missing(
    project: EmulatedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = training_needs(made(), (), {}).more["foundation"]
    with ObjectStore(tmp_path / "buckets", (BUCKET,)) as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        assert (ask(asked()).verdict, ask(asked()).said) == ("ok", f"gs://{BUCKET} is there")
        store.fail(StoreFaultKind.DENIED, times=100)
        found = ask(asked())
        assert (found.verdict, "permission denied" in found.said) == ("not asked", True), found.said
        store.faults.clear()
        (store.root / BUCKET).rmdir()
        found = ask(asked())
        assert (found.verdict, found.said.startswith(f"there is no gs://{BUCKET}; ")) == ("wrong", True), found.said


@pytest.mark.parametrize(
    ("stack", "table"),
    [("v6e-32", tpu_vm_doctor.PERMISSIONS), ("foundation.us-east5", foundation_doctor.PERMISSIONS)],
)
def test_each_permission_that_is_taken_away_is_named_with_its_role(
    real_project: EmulatedProject, stack: str, table: Mapping[str, str]
) -> None:
    """One by one, of whoever trains and of whoever makes a foundation."""
    for permission, role in table.items():
        real_project.permissions = {*table} - {permission}
        found = findings_of(stack)["roles"]
        said = f"no permission for {permission}; have an owner of real-project give you {role}"
        assert (found.verdict, found.said) == ("wrong", said)


@pytest.mark.parametrize(
    ("what", "permission", "role"),
    [
        ("project", "resourcemanager.projects.get", "roles/browser"),
        ("APIs", "serviceusage.services.list", "roles/serviceusage.serviceUsageViewer"),
        ("quota", "cloudquotas.quotas.get", "roles/cloudquotas.viewer"),
        ("data", "storage.buckets.get", "roles/storage.legacyBucketReader"),
    ],
)
def test_a_question_that_may_not_be_asked_says_which_role_asks_it(
    real_project: EmulatedProject, what: str, permission: str, role: str
) -> None:
    real_project.quotas = {QUOTA: {"us-east5-b": 64}}
    real_project.buckets = {"mine": "US-EAST5"}
    real_project.refused = {permission}
    found = findings_of("v6e-32", data="gs://mine/text")
    assert f"Permission '{permission}' denied on resource" in found[what].said
    assert f"; have it granted ({role}), or run `gcloud auth application-default login`" in found[what].said
    others = [each for each in found.values() if "denied on resource" in each.said and each.what != what]
    assert not others, "each question needs its own"


def test_a_token_of_somebody_else_is_refused_by_all(project: EmulatedProject) -> None:
    stranger = GoogleProject("my-project", Account(requests.Session(), ""))
    for ask in (stranger.state, stranger.enabled_services, partial(stranger.bucket_location, "mine")):
        with pytest.raises(GoogleError, match=r"answers 401: .*; run `gcloud auth application-default login`"):
            ask()


def test_an_account_that_may_not_read_the_buckets_is_told_the_role(project: EmulatedProject) -> None:
    account = "me@my-project.iam.gserviceaccount.com"
    settings = vertex.made(service_account=account)
    artifacts, checkpoints = (f"slipway-{kind}-us-central1-my-project" for kind in ("artifacts", "checkpoints"))
    project.buckets = dict.fromkeys((artifacts, checkpoints), "US-CENTRAL1")
    ask = vertex_doctor.needs(settings).more["account"]
    assert ask(asked()).said == (
        f"{account} lacks roles/storage.objectViewer on gs://{artifacts}; roles/storage.legacyBucketReader, "
        f"roles/storage.objectUser on gs://{checkpoints}; grant that, unless the project does"
    )
    member = f"serviceAccount:{account}"
    project.bucket_roles = {artifacts: {"roles/storage.admin": {member}}}
    project.bucket_roles[checkpoints] = {
        role: {member} for role in ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
    }
    assert ask(asked()).verdict == "ok"
    assert "account" not in vertex_doctor.needs(vertex.made()).more, "the foundation's has its roles"
    project.refused = {"storage.buckets.getIamPolicy"}
    with pytest.raises(GoogleError, match=r"roles/storage\.legacyBucketOwner"):
        ask(asked())


def test_a_reservation_of_another_machine_is_named(project: EmulatedProject) -> None:
    project.services.add("compute")
    project.reservations = {vertex.RESERVATION: "a3-highgpu-8g"}
    ask = vertex_doctor.needs(vertex.made(**vertex.RESERVED)).more["reservation"]
    assert ask(asked()).said == (
        f"{vertex.RESERVATION} is of a3-highgpu-8g, and the job wants a3-megagpu-8g; name another"
    )
    project.reservations = {vertex.RESERVATION: "a3-megagpu-8g"}
    assert ask(asked()).verdict == "ok"
