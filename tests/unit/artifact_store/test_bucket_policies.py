"""Policies of emulated buckets and projects, as Google's own client sets them, and what hosts may do by them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, Forbidden, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.object_store import ObjectStore
from infra.host_roles import bucket_roles
from infra.standins.gcp.emulated_buckets import EmulatedBuckets

TOKEN, HOSTS = "ya29.t", "hosts@p.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{HOSTS}"
READS, WRITES, SEES = (f"roles/storage.{role}" for role in ("objectViewer", "objectUser", "legacyBucketReader"))
ON_PROJECT = "gcp:projects/iAMMember:IAMMember"
_storage: Any = importlib.import_module("google.cloud.storage")  # it has no types


def client(server: ObjectStore, credentials: object) -> Any:
    options = {"api_endpoint": server.url}
    opened = _storage.Client(project="p", credentials=credentials, client_options=options)
    opened._bucket_metadata_cache = None  # else a thread asks for two minutes, for traces nobody reads
    return opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    """That of operators."""
    with ObjectStore(tmp_path / "buckets", ()) as server:
        yield server


@pytest.fixture
def operator(store: ObjectStore) -> Any:
    return client(store, AnonymousCredentials())  # type: ignore[no-untyped-call]


@pytest.fixture
def host(store: ObjectStore) -> Iterator[Any]:
    """On the server that hosts have to the same buckets."""
    access = BucketAccess({TOKEN: HOSTS}, policies=store.policies)
    with ObjectStore(store.root, (), access=access) as server:
        yield client(server, Credentials(TOKEN))  # type: ignore[no-untyped-call]


def set_roles(bucket: Any, *roles: str) -> None:
    policy = bucket.get_iam_policy(requested_policy_version=3)
    policy.bindings = [{"role": role, "members": {MEMBER}} for role in roles]
    bucket.set_iam_policy(policy)


def refusal(permission: str, where: str) -> str:
    return f"{HOSTS} does not have {permission} access to the Google Cloud {where}. Permission '{permission}' denied"


def test_a_host_may_do_what_the_policy_of_a_bucket_says_at_every_call(operator: Any, host: Any) -> None:
    bucket = operator.create_bucket("runs")
    checkpoint = host.bucket("runs").blob("checkpoint")
    with pytest.raises(Forbidden, match=refusal("storage.objects.create", "Storage object")):
        checkpoint.upload_from_string("state")
    set_roles(bucket, *bucket_roles("checkpoints"))
    checkpoint.upload_from_string("state")
    assert host.get_bucket("runs").get_blob("checkpoint").download_as_bytes() == b"state"

    set_roles(bucket, WRITES)
    with pytest.raises(Forbidden, match=refusal("storage.buckets.get", "Storage bucket")):
        host.get_bucket("runs")
    set_roles(bucket, READS, SEES)
    assert checkpoint.download_as_bytes() == b"state"
    for act in (lambda: checkpoint.upload_from_string("later"), checkpoint.delete):
        with pytest.raises(Forbidden, match=r"does not have storage\.objects"):
            act()
    assert operator.bucket("runs").blob("checkpoint").download_as_bytes() == b"state", "an operator keeps every right"


def test_a_host_gives_itself_no_role_and_makes_or_deletes_no_bucket(operator: Any, host: Any) -> None:
    set_roles(operator.create_bucket("runs"), *bucket_roles("checkpoints"))
    bucket = host.bucket("runs")
    for act, permission, where in (
        (bucket.get_iam_policy, "storage.buckets.getIamPolicy", "Storage bucket"),
        (lambda: set_roles(bucket, "roles/storage.admin"), "storage.buckets.getIamPolicy", "Storage bucket"),
        (bucket.delete, "storage.buckets.delete", "Storage bucket"),
        (lambda: host.create_bucket("own-bucket"), "storage.buckets.create", "project"),
    ):
        with pytest.raises(Forbidden, match=refusal(permission, where)):
            act()


@pytest.mark.parametrize(
    ("role", "may_write", "may_make"),
    [
        ("roles/storage.admin", True, True),
        ("roles/storage.objectUser", True, False),
        ("roles/editor", True, True),
        ("roles/owner", True, True),
        ("roles/viewer", False, False),
        ("roles/logging.logWriter", False, False),
    ],
)
def test_roles_on_a_project_count_on_its_buckets_and_on_no_others(
    store: ObjectStore, operator: Any, host: Any, role: str, may_write: bool, may_make: bool
) -> None:
    operator.create_bucket("runs")
    operator.create_bucket("elsewhere", project="another")
    EmulatedBuckets(store.url).grant(ON_PROJECT, {"project": "p", "role": role, "member": MEMBER})

    def may(act: Any) -> bool:
        try:
            act()
        except Forbidden:
            return False
        return True

    def write(bucket: str) -> Any:
        return lambda: host.bucket(bucket).blob("k").upload_from_string("content")

    assert (may(write("runs")), may(write("elsewhere"))) == (may_write, False)
    assert may(lambda: host.get_bucket("runs")) == (role not in ("roles/storage.objectUser", "roles/logging.logWriter"))
    assert may(lambda: host.create_bucket("new-bucket")) == may_make


def test_a_policy_that_is_not_the_one_of_now_is_refused_as_are_roles_and_conditions_that_mean_nothing_here(
    operator: Any,
) -> None:
    bucket = operator.create_bucket("runs")
    old = bucket.get_iam_policy(requested_policy_version=3)
    set_roles(bucket, READS)
    with pytest.raises(PreconditionFailed, match="concurrent policy changes"):
        bucket.set_iam_policy(old)
    for roles, said in (
        (("roles/storage.objectReader",), "Role roles/storage.objectReader is not supported"),
        (("roles/logging.logWriter",), "Role roles/logging.logWriter is not supported"),
        (("projects/p/roles/ours",), "Role projects/p/roles/ours is not supported"),
    ):
        with pytest.raises(BadRequest, match=said):
            set_roles(bucket, *roles)
    policy = bucket.get_iam_policy(requested_policy_version=3)
    policy.bindings = [{"role": READS, "members": {MEMBER}, "condition": {"title": "t", "expression": "true"}}]
    with pytest.raises(BadRequest, match="does not evaluate conditions"):
        bucket.set_iam_policy(policy)
    assert bucket.get_iam_policy().bindings == [{"role": READS, "members": {MEMBER}}]


def test_policies_outlive_their_server_and_what_was_taken_away_stays_so(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    members = {READS: [MEMBER], SEES: [MEMBER]}
    policies = BucketPolicies(file)
    policies.begin("runs", "p", members)
    policies.set_of_bucket("runs", {"bindings": [{"role": SEES, "members": [MEMBER]}]})
    again = BucketPolicies(file)
    again.begin("runs", "p", members)
    assert again.roles("runs", HOSTS) == {SEES}
