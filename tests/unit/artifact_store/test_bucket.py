"""A bucket as artifact store: faults, damage, permissions, credentials, and what shell scripts see of it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.artifacts.opening import open_store
from infra.artifacts.store import Store
from infra.emulators.metadata_server import MetadataServer
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.paths import ROOT
from tests.unit.artifact_store.steps import BIG, refused, write


@pytest.mark.parametrize("kind", [StoreFaultKind.UNAVAILABLE, StoreFaultKind.CUT_BEFORE, StoreFaultKind.CUT_AFTER])
@pytest.mark.parametrize("size", [1000, BIG])
def test_an_upload_survives_a_fault(
    server: ObjectStore, bucket: Store, tmp_path: Path, kind: StoreFaultKind, size: int
) -> None:
    server.fail(kind, "POST" if size == 1000 else "PUT", "/upload/", skip=0 if size == 1000 else 1)
    file = write(tmp_path / "f", os.urandom(size))
    bucket.put("k", file)
    assert server.faults[0].times == 0
    assert bucket.read("k") == file.read_bytes()


@pytest.mark.parametrize("kind", [StoreFaultKind.UNAVAILABLE, StoreFaultKind.CUT_BEFORE, StoreFaultKind.CUT_AFTER])
@pytest.mark.parametrize("before", [b"", b"one"], ids=["new", "another"])
def test_what_is_replaced_survives_a_fault(
    server: ObjectStore, bucket: Store, kind: StoreFaultKind, before: bytes
) -> None:
    if before:
        bucket.replace("k", before)
    server.fail(kind, "POST", "/upload/")
    bucket.replace("k", b"two")
    assert (server.faults[0].times, bucket.read("k")) == (0, b"two")


@pytest.mark.parametrize("kind", [StoreFaultKind.UNAVAILABLE, StoreFaultKind.CUT_BEFORE, StoreFaultKind.CUT_AFTER])
def test_a_download_survives_a_fault(server: ObjectStore, bucket: Store, tmp_path: Path, kind: StoreFaultKind) -> None:
    file = write(tmp_path / "f", os.urandom(3 << 20))
    bucket.put("k", file)
    server.fail(kind, "GET", "/download/")
    assert bucket.read("k") == file.read_bytes()
    assert server.faults[0].times == 0


@pytest.mark.parametrize("kind", [StoreFaultKind.UNAVAILABLE, StoreFaultKind.CUT_BEFORE, StoreFaultKind.CUT_AFTER])
def test_looking_listing_renewing_and_deleting_survive_a_fault(
    server: ObjectStore, bucket: Store, tmp_path: Path, kind: StoreFaultKind
) -> None:
    for key in "a", "b":
        bucket.put(key, write(tmp_path / key, key))
    os.utime(server.root / "bucket" / "a", (1e9, 1e9))
    for method, path in (("GET", "/o/a"), ("PATCH", "/o/a"), ("DELETE", "/o/a")):
        server.fail(kind, method, path)
    server.fail(kind, "GET", "/b/bucket/o", skip=3)  # a page after the first
    assert not bucket.put("a", tmp_path / "a")
    assert list(bucket.keys()) == ["a", "b"]
    bucket.delete("a")
    assert list(bucket.keys()) == ["b"]
    assert [fault.times for fault in server.faults] == [0, 0, 0, 0]


def test_no_connection_is_left_behind_by_an_error(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    """Google's client does not read the answer to a download that is an error; a warning here is an error."""
    bucket.put("k", write(tmp_path / "f", "content"))
    server.fail(StoreFaultKind.UNAVAILABLE, "GET", "/download/")
    assert bucket.read("k") == b"content"
    del bucket
    gc.collect()


def test_a_download_that_is_cut_and_then_damaged_is_noticed(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    """The client compares no checksum once it has continued a download."""
    bucket.put("k", write(tmp_path / "f", os.urandom(3 << 20)))
    server.fail(StoreFaultKind.CUT_AFTER, "GET", "/download/")
    server.fail(StoreFaultKind.CORRUPT, "GET", "/download/")
    assert "arrived damaged (checksum mismatch)" in refused(lambda: bucket.read("k"))


@pytest.mark.parametrize("size", [1000, BIG])
def test_a_damaged_upload_is_refused_and_leaves_nothing(
    server: ObjectStore, bucket: Store, tmp_path: Path, size: int
) -> None:
    server.fail(StoreFaultKind.CORRUPT, "POST" if size == 1000 else "PUT", "/upload/")
    file = write(tmp_path / "f", os.urandom(size))
    assert "checksum mismatch" in refused(lambda: bucket.put("k", file))
    assert not bucket.has("k")
    assert bucket.put("k", file)


def test_a_damaged_download_is_refused(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    bucket.put("k", write(tmp_path / "f", "content"))
    server.fail(StoreFaultKind.CORRUPT, "GET", "/download/")
    assert refused(lambda: bucket.read("k")) == ("k of gs://bucket arrived damaged (checksum mismatch); run it again")


def test_a_bucket_that_is_not_there(server: ObjectStore, tmp_path: Path) -> None:
    store = open_store("gs://elsewhere", patience_s=30)
    file = write(tmp_path / "f", "x")
    calls: list[Callable[[], object]] = [
        lambda: store.has("k"),
        lambda: store.read("k"),
        lambda: store.put("k", file),
        lambda: store.replace("k", b"x"),
        lambda: list(store.keys()),
        lambda: store.delete("k"),
    ]
    for call in calls:
        assert "there is no bucket 'elsewhere' that this account can see" in refused(call)


def test_permission_denied(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "x")
    server.fail(StoreFaultKind.DENIED, "POST")
    sentence = refused(lambda: bucket.put("k", file))
    assert sentence.startswith(f"cannot store {file} as k in gs://bucket: permission denied (")
    assert "; have it granted (roles/storage.objectUser on the bucket), or run `gcloud auth" in sentence


def test_a_service_that_stays_away(server: ObjectStore) -> None:
    server.fail(StoreFaultKind.UNAVAILABLE, times=100)
    sentence = refused(lambda: open_store("gs://bucket", patience_s=0.2).has("k"))
    assert "Cloud Storage answered 503: " in sentence
    assert sentence.endswith("; run it again")


def test_no_network(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    sentence = refused(lambda: open_store("gs://bucket", patience_s=0.2).has("k"))
    assert sentence.startswith("cannot look for k in gs://bucket: no connection to Cloud Storage (")


READ = """
from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError
try:
    print(open_store("gs://bucket").read("k"))
except StoreError as error:
    print(error)
"""


def run_with(environment: dict[str, str]) -> str:
    """A process of its own: Google's library reads its environment when it is imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE_", "GCE_", "STORAGE_"))}
    done = subprocess.run(
        [sys.executable, "-c", READ], cwd=ROOT, env=clean | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_no_credentials(tmp_path: Path) -> None:
    said = run_with({"HOME": str(tmp_path), "NO_GCE_CHECK": "true"})
    assert said.startswith("cannot open gs://bucket: no valid Google credentials (")
    assert said.endswith("; run `gcloud auth application-default login`\n")


def test_a_vm_gets_in_with_the_token_of_its_service_account(tmp_path: Path) -> None:
    write(tmp_path / "buckets" / "bucket" / "k", "content")
    with (
        MetadataServer() as metadata,
        ObjectStore(tmp_path / "buckets", token=metadata.token) as server,
    ):
        vm = {"HOME": str(tmp_path), "GCE_METADATA_HOST": metadata.host, "GCE_METADATA_IP": metadata.host}
        assert run_with(vm | {"API_ENDPOINT_OVERRIDE": server.url}) == "b'content'\n"
        server.tokens = ("another",)
        assert "no valid Google credentials" in run_with(vm | {"API_ENDPOINT_OVERRIDE": server.url})


# --- what shell scripts see ---


def curl(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["curl", "--silent", "--show-error", "--fail", *arguments], capture_output=True, check=False)


def test_curl_with_the_token_of_the_metadata_server(tmp_path: Path) -> None:
    write(tmp_path / "buckets" / "bucket" / "objects" / "a" / "f.whl", "content")
    with (
        MetadataServer(attributes={"bundle": "abc"}) as metadata,
        ObjectStore(tmp_path / "buckets", token=metadata.token) as store,
    ):
        asked = f"{metadata.url}/computeMetadata/v1/instance/"
        assert curl(f"{asked}attributes/bundle").returncode == 22, "without the header"
        flavor = ("--header", "Metadata-Flavor: Google")
        assert curl(*flavor, f"{asked}attributes/bundle").stdout == b"abc"
        assert curl(*flavor, f"{asked}attributes/absent").returncode == 22
        assert metadata.token.encode() in curl(*flavor, f"{asked}service-accounts/default/token").stdout
        content = f"{store.url}/storage/v1/b/bucket/o/objects%2Fa%2Ff.whl?alt=media"
        assert curl(content).returncode == 22, "without the token"
        bearer = ("--header", f"Authorization: Bearer {metadata.token}")
        assert curl(*bearer, content).stdout == b"content"
        assert curl(*bearer, f"{store.url}/bucket/objects/a/f.whl").stdout == b"content"
        assert curl(*bearer, "--range", "3-", content).stdout == b"tent"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[str]:
    """The address of the server as a command, with a bucket and a token."""
    arguments = ["--root", str(tmp_path), "--bucket", "b", "--token", "mine"]
    with subprocess.Popen(
        [sys.executable, "-m", "infra.emulators.object_store", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def test_the_server_as_a_command_takes_its_token_alone(command: str, tmp_path: Path) -> None:
    upload = ("--data-binary", "content", f"{command}/upload/storage/v1/b/b/o?uploadType=media&name=a/k")
    assert curl(*upload).returncode == 22, "without a token"
    assert curl("--header", "Authorization: Bearer another", *upload).returncode == 22
    assert not (tmp_path / "b" / "a" / "k").exists()
    assert curl("--header", "Authorization: Bearer mine", *upload).returncode == 0
    assert (tmp_path / "b" / "a" / "k").read_text() == "content"
