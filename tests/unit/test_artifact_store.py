"""The artifact store's promises: one contract for a directory and for a bucket, whose server is real, with faults."""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.artifacts.push import Pushed, push
from infra.artifacts.store import LocalStore, NoObjectError, Store, StoreError, open_store
from infra.emulators.object_store import FaultKind, ObjectStore
from tests.emulators.metadata_server import MetadataServer

ROOT = Path(__file__).resolve().parents[2]
BIG = 20 << 20  # above what the client sends in one piece, and above one chunk


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "buckets", page_size=1) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


@pytest.fixture
def bucket(server: ObjectStore) -> Store:
    return open_store("gs://bucket", patience_s=30)


@pytest.fixture(params=["directory", "bucket", "bucket/with/a prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return open_store(tmp_path / "a store")
    request.getfixturevalue("server")
    return open_store(f"gs://{request.param}", patience_s=30)


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "source")


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(call: Callable[[], object]) -> str:
    """The sentence; one line, and none of Google's class names."""
    with pytest.raises(StoreError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "google.api_core" not in sentence
    return sentence


# --- the contract ---


def test_what_is_put_is_there(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "content")
    assert not store.has("a/b+c é.whl")
    assert store.put("a/b+c é.whl", file)
    assert store.has("a/b+c é.whl")
    assert store.read("a/b+c é.whl") == b"content"
    assert store.size("a/b+c é.whl") == 7
    assert abs(store.updated("a/b+c é.whl") - datetime.now(UTC)) < timedelta(minutes=1)
    store.fetch("a/b+c é.whl", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == b"content"


@pytest.mark.parametrize("size", [0, 1, 8 << 20, BIG])
def test_sizes(store: Store, tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    file = write(tmp_path / "f", content[:size])
    assert store.put("f", file)
    store.fetch("f", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == content[:size]


def test_a_second_put_of_the_same_is_not_sent_again(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "content")
    assert store.put("k", file)
    assert not store.put("k", file)
    assert not store.put("k", write(tmp_path / "copy", "content"))


@pytest.mark.parametrize(
    ("other", "why"), [("longer content", "has 7 bytes, but"), ("CONTENT", "has another checksum than")]
)
def test_another_content_is_an_error_and_changes_nothing(store: Store, tmp_path: Path, other: str, why: str) -> None:
    store.put("some/key", write(tmp_path / "f", "content"))
    sentence = refused(lambda: store.put("some/key", write(tmp_path / "g", other)))
    assert sentence.startswith(f"some/key in {store.uri} {why}")
    assert str(tmp_path / "g") in sentence
    assert store.read("some/key") == b"content"


def test_listing_is_sorted_and_goes_through_pages(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "x")
    keys = ["a-b", "a/b", "a/c/d", "ab/c", "b/a", "b/b"]
    for key in reversed(keys):
        store.put(key, file)
    assert list(store.keys()) == keys
    assert list(store.keys("a/")) == ["a/b", "a/c/d"]
    assert list(store.keys("a")) == ["a-b", "a/b", "a/c/d", "ab/c"]
    assert list(store.keys("nothing/")) == []
    entries = list(store.entries("b/"))
    assert [(entry.key, entry.size) for entry in entries] == [("b/a", 1), ("b/b", 1)]
    assert [entry.updated for entry in entries] == [store.updated("b/a"), store.updated("b/b")]


def test_delete(store: Store, tmp_path: Path) -> None:
    store.put("a/b", write(tmp_path / "f", "x"))
    store.put("a/c", tmp_path / "f")
    store.delete("a/b")
    store.delete("a/b")
    assert list(store.keys()) == ["a/c"]
    assert store.put("a/b", write(tmp_path / "g", "another"))


@pytest.mark.parametrize("verb", ["read", "size", "updated", "fetch"])
def test_an_absent_object_is_named(store: Store, tmp_path: Path, verb: str) -> None:
    arguments = ("a/b", tmp_path / "g") if verb == "fetch" else ("a/b",)
    with pytest.raises(NoObjectError, match=f"there is no a/b in {store.uri}"):
        getattr(store, verb)(*arguments)
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a/./b", ".partial/x", "a\nb"])
def test_keys_stay_below_the_store(store: Store, tmp_path: Path, key: str) -> None:
    file = write(tmp_path / "f", "x")
    assert "is not a key" in refused(lambda: store.put(key, file))
    assert "is not a key" in refused(lambda: store.has(key))


def test_fetch_replaces_and_leaves_nothing_else(store: Store, tmp_path: Path) -> None:
    store.put("k", write(tmp_path / "f", "new"))
    target = write(tmp_path / "out" / "file", "old, and longer")
    store.fetch("k", target)
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]
    assert "cannot" in refused(lambda: store.fetch("k", tmp_path / "nowhere" / "file"))


def test_a_missing_file_is_one_sentence(store: Store, tmp_path: Path) -> None:
    assert "no such file" in refused(lambda: store.put("k", tmp_path / "absent"))


def test_a_put_makes_an_old_object_young_for_gc(store: Store, tmp_path: Path, server: ObjectStore) -> None:
    file = write(tmp_path / "f", "x")
    store.put("k", file)
    behind = next(path for path in tmp_path.rglob("k") if path.is_file())
    os.utime(behind, (1e9, 1e9))
    assert store.updated("k").year == 2001
    assert not store.put("k", file)
    assert abs(store.updated("k") - datetime.now(UTC)) < timedelta(minutes=1)
    assert store.read("k") == b"x"


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("some/directory", "LocalStore"), ("file:///some/a%20directory", "LocalStore"), ("gs://bucket/p", "GcsStore")],
)
def test_what_opens(server: ObjectStore, uri: str, kind: str) -> None:
    assert type(open_store(uri)).__name__ == kind
    assert open_store("file:///some/a%20directory").uri == "/some/a directory"
    assert open_store("gs://bucket/p/").uri == "gs://bucket/p"


@pytest.mark.parametrize("uri", ["", "s3://bucket", "gs://", "gs:///a", "file://host/a", "https://x/y", "gs://b?x"])
def test_what_does_not_open_says_what_does(uri: str) -> None:
    assert refused(lambda: open_store(uri)) == (
        f"'{uri}' is not an artifact store; allowed are a directory, file:///directory and gs://bucket[/prefix]"
    )


def test_the_client_is_imported_for_buckets_only() -> None:
    code = (
        "import sys, infra.operate.cli; from infra.artifacts.store import open_store; open_store('/x');"
        " sys.exit('google' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# --- a directory ---


def test_a_write_that_fails_leaves_no_object(tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: the write itself fails in the middle."""
    write(tmp_path / "f", bytes(3 << 20))
    code = (
        "import resource, sys, pathlib; from infra.artifacts.store import *;"
        f" resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, {resource.RLIM_INFINITY}));"
        " here = pathlib.Path(sys.argv[1])\n"
        "try: open_store(here / 'store').put('a/b', here / 'f')\n"
        "except StoreError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"cannot store {tmp_path}/f as a/b in {tmp_path}/store: file too large\n"
    assert list(open_store(tmp_path / "store").keys()) == []
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_partial_files_of_killed_processes_go_and_those_of_others_stay(tmp_path: Path) -> None:
    aside = tmp_path / "store" / ".partial"
    old, new, build = (write(aside / name, "half") for name in ("old", "new", "build/file"))
    for path in (old, build, build.parent):
        os.utime(path, (1e9, 1e9))
    store = open_store(tmp_path / "store")
    assert list(store.keys()) == []
    store.put("k", write(tmp_path / "f", "x"))
    assert list(aside.iterdir()) == [new]


def test_puts_of_one_key_at_the_same_time_store_it_once(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", bytes(1 << 20))
    outcomes: list[bool] = []
    barrier = threading.Barrier(4)

    def put() -> None:
        barrier.wait()
        outcomes.append(store.put("k", file))

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]


# --- a bucket ---


@pytest.mark.parametrize("kind", [FaultKind.UNAVAILABLE, FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER])
@pytest.mark.parametrize("size", [1000, BIG])
def test_an_upload_survives_a_fault(
    server: ObjectStore, bucket: Store, tmp_path: Path, kind: FaultKind, size: int
) -> None:
    server.fail(kind, "POST" if size == 1000 else "PUT", "/upload/", skip=0 if size == 1000 else 1)
    file = write(tmp_path / "f", os.urandom(size))
    bucket.put("k", file)
    assert server.faults[0].times == 0
    assert bucket.read("k") == file.read_bytes()


@pytest.mark.parametrize("kind", [FaultKind.UNAVAILABLE, FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER])
def test_a_download_survives_a_fault(server: ObjectStore, bucket: Store, tmp_path: Path, kind: FaultKind) -> None:
    file = write(tmp_path / "f", os.urandom(3 << 20))
    bucket.put("k", file)
    server.fail(kind, "GET", "/download/")
    bucket.fetch("k", tmp_path / "g")
    assert server.faults[0].times == 0
    assert (tmp_path / "g").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("kind", [FaultKind.UNAVAILABLE, FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER])
def test_looking_listing_renewing_and_deleting_survive_a_fault(
    server: ObjectStore, bucket: Store, tmp_path: Path, kind: FaultKind
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
    server.fail(FaultKind.UNAVAILABLE, "GET", "/download/")
    assert bucket.read("k") == b"content"
    del bucket
    gc.collect()


def test_a_download_that_is_cut_and_then_damaged_is_noticed(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    """The client compares no checksum once it has continued a download."""
    bucket.put("k", write(tmp_path / "f", os.urandom(3 << 20)))
    server.fail(FaultKind.CUT_AFTER, "GET", "/download/")
    server.fail(FaultKind.CORRUPT, "GET", "/download/")
    assert "arrived damaged (checksum mismatch)" in refused(lambda: bucket.fetch("k", tmp_path / "g"))
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("size", [1000, BIG])
def test_a_damaged_upload_is_refused_and_leaves_nothing(
    server: ObjectStore, bucket: Store, tmp_path: Path, size: int
) -> None:
    server.fail(FaultKind.CORRUPT, "POST" if size == 1000 else "PUT", "/upload/")
    file = write(tmp_path / "f", os.urandom(size))
    assert "checksum mismatch" in refused(lambda: bucket.put("k", file))
    assert not bucket.has("k")
    assert bucket.put("k", file)


def test_a_damaged_download_is_refused_and_leaves_nothing(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    bucket.put("k", write(tmp_path / "f", "content"))
    server.fail(FaultKind.CORRUPT, "GET", "/download/", times=2)
    assert refused(lambda: bucket.read("k")) == ("k of gs://bucket arrived damaged (checksum mismatch); run it again")
    assert "arrived damaged" in refused(lambda: bucket.fetch("k", tmp_path / "g"))
    assert not (tmp_path / "g").exists()


def test_a_bucket_that_is_not_there(server: ObjectStore, tmp_path: Path) -> None:
    store = open_store("gs://elsewhere", patience_s=30)
    file = write(tmp_path / "f", "x")
    calls: list[Callable[[], object]] = [
        lambda: store.has("k"),
        lambda: store.read("k"),
        lambda: store.put("k", file),
        lambda: list(store.keys()),
        lambda: store.delete("k"),
    ]
    for call in calls:
        assert "there is no bucket 'elsewhere' that this account can see" in refused(call)


def test_permission_denied(server: ObjectStore, bucket: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "x")
    server.fail(FaultKind.DENIED, "POST")
    sentence = refused(lambda: bucket.put("k", file))
    assert sentence.startswith(f"cannot store {file} as k in gs://bucket: permission denied; give this account roles/")


def test_a_service_that_stays_away(server: ObjectStore) -> None:
    server.fail(FaultKind.UNAVAILABLE, times=100)
    assert "Cloud Storage answered 503: " in refused(lambda: open_store("gs://bucket", patience_s=0.2).has("k"))


def test_no_network(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    sentence = refused(lambda: open_store("gs://bucket", patience_s=0.2).has("k"))
    assert sentence.startswith("cannot look for k in gs://bucket: no connection to Cloud Storage (")


READ = """
from infra.artifacts.store import StoreError, open_store
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
    assert said.startswith("cannot open gs://bucket: no valid Google credentials; run: gcloud auth application-default")


def test_a_vm_gets_in_with_the_token_of_its_service_account(tmp_path: Path) -> None:
    write(tmp_path / "buckets" / "bucket" / "k", "content")
    with (
        MetadataServer() as metadata,
        ObjectStore(tmp_path / "buckets", token=metadata.token) as server,
    ):
        vm = {"HOME": str(tmp_path), "GCE_METADATA_HOST": metadata.host, "GCE_METADATA_IP": metadata.host}
        assert run_with(vm | {"API_ENDPOINT_OVERRIDE": server.url}) == "b'content'\n"
        server.token = "another"
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


def test_the_server_as_a_command(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.emulators.object_store", "--root", str(tmp_path), "--bucket", "b"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        upload = f"{url}/upload/storage/v1/b/b/o?uploadType=media&name=a/k"
        assert curl("--data-binary", "content", upload).returncode == 0
        process.kill()
    assert (tmp_path / "b" / "a" / "k").read_text() == "content"


# --- push ---


def fill(source: LocalStore, sizes: list[int]) -> list[str]:
    """Objects of these sizes and an index; returns the objects' keys."""
    keys: list[str] = []
    for number, size in enumerate(sizes):
        content = os.urandom(size)
        key = f"objects/{hashlib.sha256(content).hexdigest()}/file{number}.whl"
        write(source.path(key), content)
        keys.append(key)
    write(source.path("wheelhouses/x/SHA256SUMS"), "\n".join(keys))
    return keys


def same(source: LocalStore, target: Store) -> bool:
    keys = list(source.keys())
    return keys == list(target.keys()) and all(source.read(key) == target.read(key) for key in keys)


def test_push_uploads_what_is_absent_and_the_index_last(store: Store, source: LocalStore) -> None:
    keys = fill(source, [10, 3000, 200, 0, 50, 60, 70, 80, 90, 100, 11, 12])
    store.put(keys[0], source.path(keys[0]))
    seen: list[tuple[str, Pushed]] = []
    done = push(source, store, keys, ["wheelhouses/x/SHA256SUMS"], lambda key, sofar: seen.append((key, sofar)))
    assert same(source, store)
    index = source.size("wheelhouses/x/SHA256SUMS")
    assert done == Pushed(12, sum(map(source.size, keys)) - 10 + index, 1, 10)
    assert seen[-1] == ("wheelhouses/x/SHA256SUMS", done)
    assert {key for key, _ in seen} == {*keys, "wheelhouses/x/SHA256SUMS"}
    again = push(source, store, keys, ["wheelhouses/x/SHA256SUMS"])
    assert (again.uploaded, again.present) == (0, 13)


def test_push_refuses_what_the_source_lacks_before_it_uploads(store: Store, source: LocalStore) -> None:
    keys = fill(source, [10])
    assert "there is no absent in" in refused(lambda: push(source, store, [*keys, "absent"]))
    assert list(store.keys()) == []


def test_push_that_fails_leaves_no_index_and_goes_on_later(
    server: ObjectStore, bucket: Store, source: LocalStore
) -> None:
    keys = fill(source, [100] * 20)
    server.fail(FaultKind.DENIED, "POST", skip=9)
    assert "permission denied" in refused(lambda: push(source, bucket, keys, ["wheelhouses/x/SHA256SUMS"]))
    assert not bucket.has("wheelhouses/x/SHA256SUMS")
    there = len(list(bucket.keys()))
    assert 9 <= there < 20
    done = push(source, bucket, keys, ["wheelhouses/x/SHA256SUMS"])
    assert (done.present, done.uploaded) == (there, 21 - there)
    assert same(source, bucket)


PUSH = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
from infra.artifacts.push import push
from infra.artifacts.store import LocalStore, open_store
source = LocalStore(pathlib.Path(sys.argv[1]))
keys = [key for key in source.keys() if key.startswith("objects/")]
push(source, open_store(sys.argv[2]), keys, ["wheelhouses/x/SHA256SUMS"], lambda key, done: print(key, flush=True))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_push_to_a_bucket_that_is_killed_in_the_middle(
    server: ObjectStore, bucket: Store, source: LocalStore, end: signal.Signals
) -> None:
    keys = fill(source, [BIG, 5 << 20, 4 << 20, 100, 90, 80, 70, 60, 50, 40])
    first_chunk = server.fail(FaultKind.HOLD, "PUT", "/upload/")  # of the biggest; more than a socket buffers
    whole = server.fail(FaultKind.HOLD, "POST", "uploadType=multipart", skip=3)
    command = [sys.executable, "-c", PUSH, str(source.directory), "gs://bucket"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert first_chunk.held.wait(60)
        assert whole.held.wait(60)
        process.send_signal(end)
        assert process.wait(20) != 0
    first_chunk.release.set()
    whole.release.set()
    for key in list(bucket.keys()):
        assert bucket.read(key) == source.read(key), "whole or absent"
    assert not bucket.has(keys[0])
    assert not bucket.has("wheelhouses/x/SHA256SUMS")
    done = push(source, bucket, keys, ["wheelhouses/x/SHA256SUMS"])
    assert done.uploaded + done.present == 11
    assert same(source, bucket)


def test_push_to_a_directory_that_is_killed_in_the_middle(tmp_path: Path, source: LocalStore) -> None:
    keys = fill(source, [3 << 20] * 40)
    target = open_store(tmp_path / "target")
    command = [sys.executable, "-c", PUSH, str(source.directory), target.uri]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline()
        process.kill()
    there = list(target.keys())
    assert len(there) >= 3
    assert "wheelhouses/x/SHA256SUMS" not in there or len(there) == 41
    assert all(target.read(key) == source.read(key) for key in there), "whole or absent"
    push(source, target, keys, ["wheelhouses/x/SHA256SUMS"])
    assert same(source, target)
