"""The bucket's server refuses what a caller's roles do not allow, each call by the permission that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from infra.artifacts.gcs import ROLE
from infra.emulators import metadata_server
from infra.emulators.bucket_access import BucketAccess
from infra.emulators.object_store import ObjectStore
from infra.emulators.storage_roles import (
    CREATE,
    DELETE,
    GET,
    GET_BUCKET,
    LIST,
    MOVE,
    STORAGE_ROLES,
    UPDATE,
)
from infra.host_roles import bucket_roles
from infra.paths import ROOT
from tests.training import emulated_bucket

TOKEN, ACCOUNT = "t", "ada@p.iam.gserviceaccount.com"
ALL = {"roles/storage.objectUser", "roles/storage.legacyBucketReader"}
UPLOAD = "upload/storage/v1/b/bucket/o?uploadType"
OBJECT = "storage/v1/b/bucket/o/k"


@pytest.fixture
def access() -> BucketAccess:
    return BucketAccess({TOKEN: ACCOUNT}, {"bucket": {ACCOUNT: ALL}})


@pytest.fixture
def guarded(tmp_path: Path, access: BucketAccess) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path, access=access) as server:
        (tmp_path / "bucket" / "k").write_text("content")
        yield server


def ask(server: ObjectStore, method: str, path: str, token: str = TOKEN) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"}
    answer = requests.request(method, f"{server.url}/{path}", data=b"{}", headers=headers, timeout=900)
    return answer.status_code, answer.json()["error"]["message"] if answer.status_code >= 400 else ""


CALLS = {
    "bucket": ("GET", "storage/v1/b/bucket", GET_BUCKET),
    "listing": ("GET", "storage/v1/b/bucket/o", LIST),
    "properties": ("GET", OBJECT, GET),
    "content": ("GET", f"{OBJECT}?alt=media", GET),
    "content by the XML API": ("GET", "bucket/k", GET),
    "one that is not there": ("GET", "storage/v1/b/bucket/o/none", LIST),
    "upload": ("POST", f"{UPLOAD}=media&name=new", CREATE),
    "upload in parts": ("POST", f"{UPLOAD}=resumable&name=new", CREATE),
    "upload over another": ("POST", f"{UPLOAD}=media&name=k", DELETE),
    "removal": ("DELETE", OBJECT, DELETE),
    "properties set": ("PATCH", OBJECT, UPDATE),
    "copy": ("POST", f"{OBJECT}/rewriteTo/b/bucket/o/new", CREATE),
    "copy of what may not be read": ("POST", f"{OBJECT}/rewriteTo/b/bucket/o/new", GET),
    "move": ("POST", f"{OBJECT}/moveTo/o/new", CREATE),
}


@pytest.mark.parametrize(("method", "path", "permission"), CALLS.values(), ids=list(CALLS))
def test_a_call_is_refused_by_the_permission_that_it_needs_and_by_no_other(
    guarded: ObjectStore, access: BucketAccess, method: str, path: str, permission: str
) -> None:
    access.denied = {permission}
    what = "bucket" if permission in (LIST, GET_BUCKET) else "object"
    assert ask(guarded, method, path) == (
        403,
        f"{ACCOUNT} does not have {permission} access to the Google Cloud Storage {what}. "
        f"Permission '{permission}' denied on resource (or it may not exist).",
    )
    assert (guarded.root / "bucket" / "k").read_text() == "content"
    assert [path.name for path in (guarded.root / "bucket").iterdir()] == ["k"]
    access.denied = {CREATE, DELETE, GET, GET_BUCKET, LIST, UPDATE} - {permission}
    assert ask(guarded, method, path)[1].find(f"'{permission}'") == -1


def test_an_object_is_moved_by_the_right_to_move_or_by_those_to_read_and_to_remove(
    guarded: ObjectStore, access: BucketAccess
) -> None:
    access.denied = {GET, DELETE}
    assert ask(guarded, "POST", f"{OBJECT}/moveTo/o/one")[0] == 200
    access.denied = {MOVE}
    assert ask(guarded, "POST", "storage/v1/b/bucket/o/one/moveTo/o/two")[0] == 200
    access.denied = {MOVE, GET}
    assert ask(guarded, "POST", "storage/v1/b/bucket/o/two/moveTo/o/three")[0] == 403
    assert [path.name for path in (guarded.root / "bucket").iterdir()] == ["two"]


def test_who_has_no_role_may_nothing_and_who_is_nobody_is_told_so(guarded: ObjectStore, access: BucketAccess) -> None:
    access.grants = {"bucket": {"somebody@else": ALL}}
    assert ask(guarded, "GET", OBJECT)[0] == 403
    assert ask(guarded, "GET", OBJECT, "another")[0] == 401
    assert ask(guarded, "GET", "storage/v1/b/elsewhere/o")[0] == 404


STORES = """
from pathlib import Path
from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError, put_bytes
store = open_store("gs://bucket", patience_s=30)
try:
    put_bytes(store, "new", b"new")
    print(store.read("new"), list(store.keys()))
    store.delete("new")
except StoreError as error:
    print(error)
"""


def test_the_artifact_store_needs_the_role_that_its_refusal_advises(
    guarded: ObjectStore, access: BucketAccess, tmp_path: Path
) -> None:
    """A process of its own: Google's library reads its environment when it is imported."""
    access.accounts = {metadata_server.TOKEN: ACCOUNT}
    guarded.tokens = access.accounts
    with metadata_server.MetadataServer() as metadata:
        vm = {"HOME": str(tmp_path), "GCE_METADATA_HOST": metadata.host, "GCE_METADATA_IP": metadata.host}
        environment = os.environ | vm | {"API_ENDPOINT_OVERRIDE": guarded.url}

        def said(role: str) -> str:
            access.grants = {"bucket": {ACCOUNT: {role}}}
            command = [sys.executable, "-c", STORES]
            return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

        assert said(ROLE) == "b'new' ['k', 'new']\n"
        refused = said("roles/storage.objectViewer")
    assert f": permission denied ({ACCOUNT} does not have {CREATE} access to " in refused
    assert f"; have it granted ({ROLE} on the bucket), or run " in refused


def test_hosts_of_tests_have_the_roles_that_a_foundation_grants_on_checkpoints() -> None:
    granted = bucket_roles("checkpoints")
    assert granted == emulated_bucket.ROLES == ALL
    assert granted <= STORAGE_ROLES.keys()
