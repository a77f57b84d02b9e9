"""`slipway doctor` as people run it: what this machine has, and what an emulated project has; changes nothing.

The command looks at everything, which takes seconds; what one finding says in different cases is asked of it alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import names
from infra.doctor import this_machine
from infra.doctor.cloud_training import quota_finding
from infra.doctor.findings import findings
from infra.doctor.google import of_google
from infra.emulated import QUESTIONS
from infra.emulators.google_apis import ACCOUNT, EmulatedProject, GoogleApis
from infra.emulators.object_store import ObjectStore
from infra.google_cloud import google_project
from infra.preview.quota import QuotaNeed
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import check
from infra.targets.foundation import doctor as foundation_doctor
from infra.targets.foundation.settings import FoundationSettings
from infra.targets.needs import Finding
from tests.engine.clone import ROOT, Clone, said
from tests.engine.google_plugin import write_executable
from tests.engine.tpu_cloud import settings_of, shipped

LOCAL = ["stack file", "engine", "uv", "environment", "locks", "plugin", "wheelhouse", "stack lock"]
NAMES = names.of("real-project", "us-east5", "slipway")
QUOTA = "TPUV6EPerProjectPerZoneForTPUAPI"
FOUNDATION = {"stack": "s", "project": "real-project", "region": "us-east5", "owner": "me"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("doctor") / "clone")


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # Google's switch: no metadata server is looked for
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleApis]:
    """A project that has all that v6e-32 needs."""
    project = EmulatedProject(
        services={"compute", "storage", "tpu", "cloudquotas", "serviceusage"},
        permissions={"tpu.nodes.create", "tpu.nodes.delete", "iam.serviceAccounts.actAs"},
        quotas={QUOTA: {"us-east5-a": 0, "us-east5-b": 64}},
        buckets={"mine": "US-EAST5", "theirs": "US"},
    )
    buckets = (NAMES.artifacts_bucket,)
    with GoogleApis(project) as server, ObjectStore(tmp_path / "buckets", buckets) as store:
        server.write_credentials(tmp_path / "key.json")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        monkeypatch.setenv(QUESTIONS, server.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield server


def write(clone: Clone, stack: str, like: str = "v6e-32", **settings: Any) -> None:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text())
    document["config"] |= {f"slipway:{key}": value for key, value in settings.items()}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


def doctor(clone: Clone, *arguments: str, code: int) -> dict[str, tuple[str, str]]:
    """Verdict and sentence of each thing."""
    done = clone.run("slipway", "doctor", *arguments, "--json")
    assert done.returncode == code, said(done)
    found = {finding["what"]: (finding["verdict"], finding["said"]) for finding in json.loads(done.stdout)}
    assert not [sentence for _, sentence in found.values() if "\n" in sentence or not sentence]
    return found


def settings(like: str = "v6e-32", **changed: Any) -> CloudSettings:
    made = check(like, shipped(like) | {"project": "real-project"} | changed)
    assert isinstance(made, CloudSettings)
    return made


def verdicts(found: Iterable[Finding]) -> dict[str, tuple[str, str]]:
    return {finding.what: (finding.verdict, finding.said) for finding in found}


def test_this_machine_needs_no_account(clone: Clone) -> None:
    found = doctor(clone, code=0)
    assert list(found) == ["stack files", *LOCAL[1:6], "stack lock", "credentials"]
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    assert found["engine"][1].startswith("pulumi v3.")
    assert "previews and target local need none" in found["credentials"][1]
    of_local = doctor(clone, "local", code=0)
    assert list(of_local) == LOCAL
    shown = clone.run("slipway", "doctor", "local")
    lines = shown.stdout.splitlines()
    assert len(lines) == len(LOCAL), "one line each"
    assert lines[0] == "ok        stack file   stacks/Pulumi.local.yaml is a stack of target local"


def test_without_credentials_it_says_how_to_get_them(clone: Clone) -> None:
    found = doctor(clone, "v6e-32", code=1)
    assert found["credentials"] == ("wrong", "there are none; run: gcloud auth application-default login")
    for what in ("project", "APIs", "roles", "quota", "foundation"):
        assert found[what] == ("not asked", "no credentials")
    assert [found[what][0] for what in LOCAL] == ["ok"] * len(LOCAL)


def test_a_project_that_has_everything(clone: Clone, google: GoogleApis) -> None:
    write(clone, "v6e-32.ready", project="real-project", training={"load_parameters_path": "gs://mine/0/items"})
    found = doctor(clone, "v6e-32.ready", code=0)
    assert next(iter(found)) == "emulated", "it comes first, for it is about all that follows"
    assert {verdict for what, (verdict, _) in found.items() if what != "emulated"} == {"ok"}
    assert found["credentials"][1] == ACCOUNT
    assert found["quota"][1].startswith(f"{QUOTA}: 64 in us-east5-b, 0 in us-east5-a, needs 32 chips")
    assert found["training.load_parameters_path"] == ("ok", "gs://mine is in us-east5")
    assert {call.partition(" ")[0] for call in google.calls} == {"GET", "POST"}
    assert [call for call in google.calls if call.startswith("POST")] == [
        "POST /v1/projects/real-project:testIamPermissions"
    ]


def test_what_a_project_lacks_is_said_with_the_fix(google: GoogleApis) -> None:
    google.project.services -= {"tpu"}
    google.project.permissions -= {"tpu.nodes.create", "iam.serviceAccounts.actAs"}
    google.project.quotas = {QUOTA: {"default": 16}}
    loads = {"load_parameters_path": "gs://theirs/0/items"}
    found = verdicts(of_google(settings(prefix="other", training=loads)))
    assert found["APIs"] == (
        "wrong",
        "not enabled: tpu; run: gcloud services enable tpu.googleapis.com --project real-project",
    )
    assert found["roles"][1] == (
        "no permission for tpu.nodes.create, iam.serviceAccounts.actAs; have an owner of real-project give you "
        "roles/tpu.admin and roles/iam.serviceAccountUser"
    )
    assert found["quota"][0] == "wrong"
    assert "16 in us-east5-b, 16 in us-east5-a, but 32 chips are needed; ask for more at https" in found["quota"][1]
    assert found["foundation"][0] == "wrong"
    assert "and run: pulumi up --stack foundation.us-east5" in found["foundation"][1]
    assert "bucket 'theirs' lies in us, but the hosts are in us-east5" in found["training.load_parameters_path"][1]


def test_up_enables_the_apis_of_a_foundation_but_not_the_one_that_enables(google: GoogleApis) -> None:
    google.project.services = set(FoundationSettings.model_validate(FOUNDATION).services) - {"tpu"}
    assert verdicts(of_google(settings("foundation.us-east5")))["APIs"] == ("ok", "`up` enables tpu")
    google.project.services -= {"serviceusage"}
    assert verdicts(of_google(settings("foundation.us-east5")))["APIs"] == (
        "wrong",
        "not enabled: serviceusage, tpu; run: gcloud services enable serviceusage.googleapis.com tpu.googleapis.com "
        "--project real-project",
    )


def test_a_quota_of_another_family_is_not_taken_for_ones_own(google: GoogleApis) -> None:
    name = "TPUS-PER-TPU-FAMILY-per-project-region"
    google.project.quotas = {name: {"us-east5 tpu_family=CT5P": 4096, "us-east5 tpu_family=CT6E": 0, "default": 8}}
    project = google_project.GoogleProject("real-project", google_project.account())
    need = QuotaNeed(name, 32, "chips", ("us-east5",), "compute", "tpu_family=CT6E")
    short = quota_finding(project, need)
    assert (short.verdict, short.said.partition(", but ")[0]) == ("wrong", f"{name} (tpu_family=CT6E): 0 in us-east5")
    assert quota_finding(project, replace(need, dimension="tpu_family=CT5P")).said.startswith(
        f"{name} (tpu_family=CT5P): 4,096 in us-east5, needs 32 chips"
    )
    assert project.quota("compute", name, "us-east5", {"tpu_family": "CT5LP"}) == 8, "unset is the default's"


def test_what_could_not_be_asked_says_why(google: GoogleApis) -> None:
    google.project.services -= {"cloudquotas"}
    assert verdicts(of_google(settings()))["quota"] == (
        "not asked",
        "cloudquotas.googleapis.com is not enabled, so it does not tell; run: gcloud services enable "
        "cloudquotas.googleapis.com --project real-project",
    )
    other = verdicts(of_google(settings(project="their-project")))
    assert other["project"] == (
        "wrong",
        "cloudresourcemanager.googleapis.com answers 403: The caller does not have permission; have it "
        "granted (roles/browser), or run `gcloud auth application-default login` as who has it",
    )
    assert other["APIs"][0] == "not asked"
    google.project.state = "DELETE_REQUESTED"
    verdict, sentence = verdicts(of_google(settings()))["project"]
    assert verdict == "wrong" and sentence.endswith("run: gcloud projects undelete real-project")
    verdict, sentence = verdicts(of_google(settings(project="my-project")))["project"]
    assert verdict == "wrong" and sentence.startswith("project is still 'my-project'")
    google.grants = False
    verdict, sentence = verdicts(of_google(settings()))["credentials"]
    assert verdict == "wrong"
    assert sentence.startswith("they are no longer valid (invalid_grant: Invalid JWT Signature.")


def test_what_is_not_google_is_said_first_with_and_without_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_TPU_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("SLIPWAY_STANDIN_STATE", "/cloud")
    for stack, variables in (
        (None, ["SLIPWAY_TPU_ENDPOINT", "SLIPWAY_STANDIN_STATE"]),
        ("v6e-32", ["SLIPWAY_TPU_ENDPOINT"]),
        ("foundation.us-east5", ["SLIPWAY_STANDIN_STATE"]),
        ("local", []),
    ):
        *said_first, after = islice(findings(stack), len(variables) + 1)
        assert [finding.said.partition(" ")[0] for finding in said_first] == variables
        assert {(finding.what, finding.verdict) for finding in said_first} <= {("emulated", "not asked")}
        assert after.what.startswith("stack file")


def test_what_has_the_name_of_googles_plugin_and_is_not_it_is_named(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rubbish = write_executable(tmp_path / "bin", "echo hello")
    monkeypatch.setenv("PATH", f"{rubbish.parent}:{os.environ['PATH']}")
    verdict, sentence = doctor(clone, "foundation.us-east5", code=1)["plugin"]
    assert verdict == "wrong"
    assert sentence.endswith(
        f"; {rubbish} is not Google's plugin 10.2.0: it printed 'hello' instead of a port; it is passed over"
    )


def test_a_domain_scoped_project(google: GoogleApis) -> None:
    google.project.project = "example.com:thing"
    found = verdicts(of_google(settings(project="example.com:thing")))
    assert [found[what][0] for what in ("project", "APIs", "roles", "quota")] == ["ok"] * 4
    assert found["foundation"][0] == "wrong"


def test_a_foundation(clone: Clone, google: GoogleApis) -> None:
    write(clone, "foundation.mine", like="foundation.us-east5", project="real-project", egress="nat")
    found = doctor(clone, "foundation.mine", code=1)
    every = FoundationSettings.model_validate(FOUNDATION)
    missing = sorted(set(every.services) - google.project.services)
    assert found["APIs"] == ("ok", f"`up` enables {', '.join(missing)}")
    assert "compute.routers.create; have an owner" in found["roles"][1]
    assert found["plugin"][0] == "wrong"
    assert "run: .venv/bin/pulumi plugin install resource gcp 10." in found["plugin"][1]
    assert "wheelhouse" not in found


def test_a_foundation_whose_maker_may_not_grant_on_the_project_or_make_a_budget(google: GoogleApis) -> None:
    """Hosts' logs and metrics need a grant on the project, a budget one on the billing account: both end an `up`."""
    account = "012345-6789AB-CDEF01"
    paid = settings("foundation.us-east5", budget_usd=500, budget_billing_account=account)
    google.project.permissions = {*foundation_doctor.PERMISSIONS, *foundation_doctor.BUDGET}
    google.project.permissions -= {"resourcemanager.projects.setIamPolicy", "serviceusage.services.use"}
    google.project.billing_accounts = {account: set()}
    found = verdicts(of_google(paid))
    assert found["roles"] == (
        "wrong",
        "no permission for resourcemanager.projects.setIamPolicy, serviceusage.services.use; have an owner of "
        "real-project give you roles/resourcemanager.projectIamAdmin and roles/serviceusage.serviceUsageConsumer",
    )
    assert found["budget"] == (
        "wrong",
        f"no permission for billing.budgets.create on billing account {account}; have one of its administrators give "
        "you roles/billing.costsManager there, or leave budget_usd out",
    )
    google.project.permissions = {*foundation_doctor.PERMISSIONS, *foundation_doctor.BUDGET}
    google.project.billing_accounts = {account: {"billing.budgets.create"}}
    found = verdicts(of_google(paid))
    assert (found["roles"][0], found["budget"]) == ("ok", ("ok", f"billing account {account} lets you make one"))
    google.project.billing_accounts = {}
    assert verdicts(of_google(paid))["budget"] == (
        "not asked",
        "cloudbilling.googleapis.com answers 403: The caller does not have permission; have it "
        "granted (roles/billing.viewer), or run `gcloud auth application-default login` as who has it",
    )


def test_a_lock_that_a_killed_engine_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    monkeypatch.setattr(this_machine, "ROOT", tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = tmp_path / ".slipway/state/.pulumi/locks/organization/slipway/local"
    folder.mkdir(parents=True)
    lock = folder / "1.json"
    fields = {"username": "me", "hostname": os.uname().nodename, "timestamp": datetime.now(UTC).isoformat()}
    lock.write_text(json.dumps(fields | {"pid": ended.pid}))
    found = this_machine.stack_lock_finding("local")
    assert found.verdict == "wrong"
    assert found.said.startswith(f"a killed pulumi (pid {ended.pid}) left stack 'local' locked; run: ")
    assert found.said.endswith(".venv/bin/pulumi cancel --yes --stack local")
    assert this_machine.stack_lock_finding("v6e-32").verdict == "ok", "another stack's"
    lock.write_text(json.dumps(fields | {"pid": os.getpid()}))
    found = this_machine.stack_lock_finding("local")
    assert (found.verdict, found.said) == ("ok", f"'local' is in use by pid {os.getpid()}")
    lock.write_text("{")
    found = this_machine.stack_lock_finding("local")
    assert found.verdict == "wrong" and "has an unreadable lock" in found.said


def test_a_wheelhouse_that_is_not_built_yet_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "ARTIFACTS", tmp_path)
    found = this_machine.wheelhouse_finding(settings_of("v6e-32"))
    assert (found.verdict, found.said.partition(" is ")[2]) == ("ok", "not built yet: `up` does")


def test_what_is_wrong_here(tmp_path: Path) -> None:
    clone = Clone.make(tmp_path / "clone")
    write(clone, "local.python", like="local", python_archive="no-such.tar.gz")
    (clone.directory / "training" / "locks" / "pylock.cpu-stable.toml").unlink()
    found = doctor(clone, "local.python", code=1)
    assert found["wheelhouse"] == (
        "wrong",
        "python_archive is 'no-such.tar.gz', which is no file; give one, or `locked`",
    )
    assert "make it with: make lock" in found["locks"][1]
    project = clone.directory / "pyproject.toml"
    project.write_text(project.read_text().replace('"rich>=13"', '"rich>=13.1"'))
    found = doctor(clone, "v5e-8", code=1)
    assert found["locks"][1].startswith("uv.lock is older than pyproject.toml; run: make lock")
    (clone.directory / "stacks" / "Pulumi.v6e-32.yaml").write_bytes("config:\n".encode("utf-16"))
    assert doctor(clone, code=1)["stack files"][1].endswith("save it as UTF-8")
    no_stack = this_machine.stack_files_findings("v7e-32")[1]
    assert no_stack.verdict == "wrong" and "no file stacks/Pulumi.v7e-32.yaml" in no_stack.said
