"""Push: what is absent, the index last; it fails or is killed in the middle, and goes on later."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.artifacts.layout import object_key, sums_text, wheelhouse_key
from infra.artifacts.opening import open_store
from infra.artifacts.push import Pushed, push
from infra.artifacts.store import LocalStore, Store
from infra.commands.main import app
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.host_software import derive, wheelhouses
from infra.host_software.wheels.locks import STABLE
from infra.paths import ROOT
from infra.stack_file.settings import from_file
from tests.unit.artifact_store.steps import BIG, refused, write


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
    server.fail(StoreFaultKind.DENIED, "POST", skip=9)
    assert "permission denied" in refused(lambda: push(source, bucket, keys, ["wheelhouses/x/SHA256SUMS"]))
    assert not bucket.has("wheelhouses/x/SHA256SUMS")
    there = len(list(bucket.keys()))
    assert 9 <= there < 20
    done = push(source, bucket, keys, ["wheelhouses/x/SHA256SUMS"])
    assert (done.present, done.uploaded) == (there, 21 - there)
    assert same(source, bucket)


@pytest.fixture
def built(source: LocalStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a wheelhouse of 20 files in this machine's store."""
    monkeypatch.setattr(wheelhouses, "ARTIFACTS", source.directory)
    digests = {f"wheel{number}.whl": hashlib.sha256(b"a" * number).hexdigest() for number in range(20)}
    for number, (name, digest) in enumerate(digests.items()):
        write(source.path(object_key(digest, name)), b"a" * number)
    write(source.path(wheelhouse_key("0" * 16)), sums_text(digests))  # bigger than any wheel: it would go first
    return "0" * 16


def test_wheelhouse_that_could_not_be_pushed_whole_is_not_there(
    server: ObjectStore, bucket: Store, source: LocalStore, built: str
) -> None:
    server.fail(StoreFaultKind.DENIED, "POST", skip=9)
    assert "permission denied" in refused(lambda: wheelhouses.push_from_here(built, "gs://bucket"))
    assert not bucket.has(wheelhouse_key(built))
    wheelhouses.push_from_here(built, "gs://bucket")
    assert same(source, bucket)


def test_on_a_terminal_a_push_shows_how_far_it_is(
    bucket: Store, source: LocalStore, built: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich writes as to a terminal
    wheelhouses.push_from_here(built, "gs://bucket")
    said = capsys.readouterr()
    shown = [line for line in said.err.split("\r") if " of " in line]
    assert len(shown) == 21
    assert "SHA256SUMS" in shown[-1]
    assert said.out == f"{bucket.uri}: 21 files (0 MB) uploaded, 0 were there (0 MB)\n"


def test_a_push_to_where_it_lies_does_nothing(
    source: LocalStore, built: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheelhouses.push_from_here(built, source.uri)
    assert capsys.readouterr().out == ""


def test_a_push_of_a_stack_is_of_its_own_wheelhouse_to_its_own_bucket(
    server: ObjectStore, source: LocalStore, built: str
) -> None:
    """Beside another wheelhouse that is built here too."""
    (server.root / "slipway-artifacts-us-east5-my-project").mkdir()
    own = derive.wheelhouse(from_file("v6e-8"), "tpu").id
    digest = hashlib.sha256(b"a wheel").hexdigest()
    write(source.path(object_key(digest, "own.whl")), b"a wheel")
    write(source.path(wheelhouse_key(own)), sums_text({"own.whl": digest}))
    done = CliRunner().invoke(app, ["wheels", "push", "v6e-8"])
    assert done.exit_code == 0, done.output
    note, said = done.output.splitlines()
    assert note.startswith(f"note: STORAGE_EMULATOR_HOST is {server.url}: Cloud Storage is that server, not Google;")
    bucket = "gs://slipway-artifacts-us-east5-my-project"
    assert said == f"{bucket}: 2 files (0 MB) uploaded, 0 were there (0 MB)"
    assert list(open_store(bucket).keys()) == [object_key(digest, "own.whl"), wheelhouse_key(own)]


def test_an_environment_that_cannot_be_installed_says_where_the_reason_is(
    source: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wheels = wheelhouses.inputs_of("cpu", STABLE, None, None)
    monkeypatch.setattr(wheelhouses, "ARTIFACTS", source.directory)
    monkeypatch.setattr(wheelhouses, "INSTALLED", tmp_path / "installed")
    write(source.path(wheelhouse_key(wheels.id)), b"not a sum\n")
    with pytest.raises(OSError, match="the hosts' environment cannot be made; the reason is above"):
        wheelhouses.environment(wheels)
    assert "build and push the wheelhouse again" in capfd.readouterr().err


PUSH = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
from infra.artifacts.push import push
from infra.artifacts.opening import open_store
from infra.artifacts.store import LocalStore
source = LocalStore(pathlib.Path(sys.argv[1]))
keys = [key for key in source.keys() if key.startswith("objects/")]
push(source, open_store(sys.argv[2]), keys, ["wheelhouses/x/SHA256SUMS"], lambda key, done: print(key, flush=True))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_push_to_a_bucket_that_is_killed_in_the_middle(
    server: ObjectStore, bucket: Store, source: LocalStore, end: signal.Signals
) -> None:
    keys = fill(source, [BIG, 5 << 20, 4 << 20, 100, 90, 80, 70, 60, 50, 40])
    first_chunk = server.fail(StoreFaultKind.HOLD, "PUT", "/upload/")  # of the biggest; more than a socket buffers
    whole = server.fail(StoreFaultKind.HOLD, "POST", "uploadType=multipart", skip=3)
    command = [sys.executable, "-c", PUSH, str(source.directory), "gs://bucket"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert first_chunk.held.wait(900)
        assert whole.held.wait(900)
        process.send_signal(end)
        assert process.wait(900) != 0
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
