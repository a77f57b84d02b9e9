"""The artifact store's promises: one contract for a directory and for a bucket."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

from infra.artifacts.opening import open_store
from infra.artifacts.store import NoObjectError, Store
from infra.emulators.object_store import ObjectStore
from infra.paths import ROOT
from tests.unit.artifact_store.steps import BIG, refused, write

# --- the contract ---


def test_what_is_put_is_there(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "content")
    assert not store.has("a/b+c é.whl")
    assert store.put("a/b+c é.whl", file)
    assert store.has("a/b+c é.whl")
    assert store.read("a/b+c é.whl") == b"content"
    assert abs(store.updated("a/b+c é.whl") - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("size", [0, 1, 8 << 20, BIG])
def test_sizes(store: Store, tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    file = write(tmp_path / "f", content[:size])
    assert store.put("f", file)
    assert store.read("f") == content[:size]
    assert [entry.size for entry in store.entries()] == [size]


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


def test_what_is_replaced_is_one_or_the_other_and_never_both(store: Store, tmp_path: Path) -> None:
    store.replace("a/b", b"one")
    store.replace("a/b", b"two")
    store.replace("a/b", b"two")
    assert (store.read("a/b"), list(store.keys())) == (b"two", ["a/b"])
    assert store.put("a/c", write(tmp_path / "f", "kept"))
    assert store.read("a/c") == b"kept"
    assert "is not a key" in refused(lambda: store.replace("../a", b"x"))


MORE = 20  # than there are, where a page that comes again would be listed for ever


def listed(store: Store, prefix: str = "") -> list[str]:
    return list(islice(store.keys(prefix), MORE))


def test_listing_is_sorted_and_goes_through_pages(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "f", "x")
    keys = ["a-b", "a/b", "a/c/d", "ab/c", "b/a", "b/b"]
    for key in reversed(keys):
        store.put(key, file)
    assert listed(store) == keys
    assert listed(store, "a/") == ["a/b", "a/c/d"]
    assert listed(store, "a") == ["a-b", "a/b", "a/c/d", "ab/c"]
    assert listed(store, "nothing/") == []
    entries = list(islice(store.entries("b/"), MORE))
    assert [(entry.key, entry.size) for entry in entries] == [("b/a", 1), ("b/b", 1)]
    assert [entry.updated for entry in entries] == [store.updated("b/a"), store.updated("b/b")]


def test_delete(store: Store, tmp_path: Path) -> None:
    store.put("a/b", write(tmp_path / "f", "x"))
    store.put("a/c", tmp_path / "f")
    store.delete("a/b")
    store.delete("a/b")
    assert list(store.keys()) == ["a/c"]
    assert store.put("a/b", write(tmp_path / "g", "another"))


@pytest.mark.parametrize("verb", ["read", "updated"])
def test_an_absent_object_is_named(store: Store, tmp_path: Path, verb: str) -> None:
    with pytest.raises(NoObjectError, match=f"there is no a/b in {store.uri}"):
        getattr(store, verb)("a/b")


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a/./b", ".partial/x", "a\nb"])
def test_keys_stay_below_the_store(store: Store, tmp_path: Path, key: str) -> None:
    file = write(tmp_path / "f", "x")
    assert "is not a key" in refused(lambda: store.put(key, file))
    assert "is not a key" in refused(lambda: store.has(key))


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


@pytest.mark.parametrize(
    "uri", ["", "s3://", "az://bucket", "gs://", "gs:///a", "file://host/a", "https://x/y", "gs://b?x"]
)
def test_what_does_not_open_says_what_does(uri: str) -> None:
    assert refused(lambda: open_store(uri)) == (
        f"'{uri}' is not an artifact store; allowed are a directory, file:///directory, gs://bucket[/prefix] and "
        f"s3://bucket[/prefix]"
    )


def test_the_client_is_imported_for_buckets_only() -> None:
    code = (
        "import sys, infra.commands.main; from infra.artifacts.opening import open_store; open_store('/x');"
        " sys.exit('google' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# --- a directory ---


def test_a_write_that_fails_leaves_no_object(tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: the write itself fails in the middle."""
    write(tmp_path / "f", bytes(3 << 20))
    code = (
        "import resource, sys, pathlib; from infra.artifacts.opening import *;"
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
