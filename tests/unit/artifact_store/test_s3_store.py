"""The store that is an S3 bucket, of a server that nobody here wrote: the contract of every store, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from infra.artifacts import s3
from infra.artifacts.opening import open_store
from infra.artifacts.push import push
from infra.artifacts.store import LocalStore, NoBucketError, NotPermittedError, Store, StoreError
from tests.emulators.s3_server import OPERATOR, POD, REGION, S3Server
from tests.unit.artifact_store import test_contract as contract
from tests.unit.artifact_store.steps import refused, write

pytestmark = pytest.mark.long  # builds the server, once per machine

test_what_is_put_is_there = contract.test_what_is_put_is_there
test_sizes = contract.test_sizes
test_a_second_put_of_the_same_is_not_sent_again = contract.test_a_second_put_of_the_same_is_not_sent_again
test_another_content_is_an_error_and_changes_nothing = contract.test_another_content_is_an_error_and_changes_nothing
test_what_is_replaced_is_one_or_the_other = contract.test_what_is_replaced_is_one_or_the_other_and_never_both
test_listing_is_sorted_and_goes_through_pages = contract.test_listing_is_sorted_and_goes_through_pages
test_delete = contract.test_delete
test_an_absent_object_is_named = contract.test_an_absent_object_is_named
test_keys_stay_below_the_store = contract.test_keys_stay_below_the_store
test_a_missing_file_is_one_sentence = contract.test_a_missing_file_is_one_sentence


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_pod_account()
        yield server


def ask_as(account: tuple[str, str], server: S3Server, monkeypatch: pytest.MonkeyPatch, region: str = REGION) -> None:
    for name, value in server.environment(account, region).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(request: pytest.FixtureRequest, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A bucket of the test's own."""
    ask_as(OPERATOR, s3_server, monkeypatch)
    name = f"bucket-{len(list(s3_server.buckets.iterdir()))}"
    s3_server.make_bucket(name)
    return open_store(f"s3://{name}/with/a prefix", patience_s=30)


def test_a_put_makes_an_old_object_young_for_gc(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    file = write(tmp_path / "f", "content")
    store.put("k", file)
    monkeypatch.setattr(s3, "RENEW_AFTER", timedelta(0))
    assert not store.put("k", file)
    bucket = s3_server.buckets / store.uri.split("/")[2]
    assert store.read("k") == b"content" and (bucket / "with" / "a prefix" / "k").read_text() == "content"
    assert not store.put("k", file), "its checksum was lost on the way"


def test_what_others_have_put_there_is_compared_by_its_bytes(store: Store, tmp_path: Path, s3_server: S3Server) -> None:
    """`aws s3 sync` writes no checksum of ours."""
    theirs = s3_server.buckets / store.uri.split("/")[2] / "with" / "a prefix" / "k"
    write(theirs, "content")
    assert not store.put("k", write(tmp_path / "f", "content"))
    assert "has another checksum than" in refused(lambda: store.put("k", write(tmp_path / "g", "CONTENT")))


def test_of_many_that_put_at_once_one_wins(store: Store, tmp_path: Path) -> None:
    files = [write(tmp_path / str(number), f"content {number}") for number in range(8)]
    together = threading.Barrier(len(files))

    def put(file: Path) -> bool | str:
        store.has("k")  # connected, so that all are as fast
        together.wait()
        try:
            return store.put("k", file)
        except StoreError as error:
            return str(error)

    with ThreadPoolExecutor(len(files)) as pool:
        outcomes = list(pool.map(put, files))
    assert outcomes.count(True) == 1
    assert store.read("k") == files[outcomes.index(True)].read_bytes()
    assert all("has another checksum than" in outcome for outcome in outcomes if isinstance(outcome, str))


def test_a_set_of_files_is_pushed_once(store: Store, tmp_path: Path) -> None:
    source = LocalStore(tmp_path / "source")
    for number in range(20):
        source.put(f"objects/{number}", write(tmp_path / "f", f"content {number}"))
    assert push(source, store, list(source.keys()), last=["objects/3"]).uploaded == 20
    assert push(source, store, list(source.keys()), last=["objects/3"]).present == 20


def test_a_bucket_that_is_not_there_is_named(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask_as(OPERATOR, s3_server, monkeypatch)
    absent = open_store("s3://no-such-bucket/prefix", patience_s=30)
    for call in (
        lambda: absent.has("k"),
        lambda: absent.put("k", write(tmp_path / "f", "x")),
        lambda: list(absent.keys()),
    ):
        with pytest.raises(
            NoBucketError, match=f"there is no bucket 'no-such-bucket' at {s3_server.url}; fix the name"
        ):
            call()


@pytest.mark.parametrize(
    ("call", "permission"),
    [("has", "s3:GetObject and s3:ListBucket"), ("read", "s3:GetObject"), ("delete", "s3:DeleteObject")],
)
def test_an_account_without_rights_is_told_which_it_lacks(
    store: Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, call: str, permission: str
) -> None:
    ask_as(POD, s3_server, monkeypatch)
    denied, bucket = open_store(store.uri, patience_s=30), store.uri.split("/")[2]
    with pytest.raises(NotPermittedError) as caught:
        getattr(denied, call)("k")
    assert str(caught.value).endswith(
        f"permission denied (AccessDenied: Access Denied); have {permission} granted on arn:aws:s3:::{bucket}/*"
    )


def test_another_region_is_found_out(store: Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore asks again with the region that the bucket names."""
    store.replace("k", b"content")
    ask_as(OPERATOR, s3_server, monkeypatch, region="us-west-2")
    elsewhere = open_store(store.uri, patience_s=30)
    assert (elsewhere.has("k"), elsewhere.has("absent")) == (True, False)


def test_credentials_that_are_none_are_said(
    store: Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask_as((OPERATOR[0], "wrong"), s3_server, monkeypatch)
    sentence = f"{s3_server.url} does not accept this machine's credentials \\(SignatureDoesNotMatch: "
    with pytest.raises(StoreError, match=sentence):
        open_store(store.uri, patience_s=30).has("k")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoreError, match=r"Unable to locate credentials; log in \(`aws sso login`\), or choose a"):
        open_store(store.uri, patience_s=30).has("k")


def test_no_server_is_said(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    ask_as(OPERATOR, s3_server, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"no connection to http://127.0.0.1:9 .*; run it again when there is one"):
        open_store("s3://bucket", patience_s=10).has("k")
