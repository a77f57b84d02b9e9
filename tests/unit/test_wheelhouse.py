"""Wheelhouses: what they are made of decides their id, and what an index serves is taken only as the lock says."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.artifacts.layout import object_key, objects_of, sums_text, wheelhouse_key
from infra.host_software import wheelhouses
from infra.host_software.wheels import python_lock
from infra.host_software.wheels.build import BuildError, build, make
from infra.host_software.wheels.fetch import FetchError, Silent, fetch_all
from infra.host_software.wheels.identity import WheelhouseInputs, wheelhouse_inputs
from infra.host_software.wheels.locks import LockError
from infra.host_software.wheels.made import made_sums, write_made
from infra.host_software.wheels.mount_program import MountProgram
from infra.host_software.wheels.python_made_here import pack_python
from infra.host_software.wheels.pythons import (
    ADVICE,
    LOCKED,
    MIRROR,
    RELEASES,
    HostPython,
    LockedPython,
    host_python,
    lock_path,
)
from infra.host_software.wheels.selection import LockedFile, locked_files
from infra.paths import ARTIFACTS, TRAINING, UV
from tests.python_archive import NAME, header, python_archive
from training.data.hash_cache import HashCache


class Index:
    """A package index that counts and can cut an answer short."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []  # path and Range
        self.cut_after: dict[str, int] = {}  # bytes of the next answer for a path
        self.status: dict[str, int] = {}
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "")
                index.requests.append((self.path, wanted))
                if self.path in index.status or self.path not in index.files:
                    self.send_error(index.status.get(self.path, 404))
                    return
                content = index.files[self.path]
                start = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-", wanted)) else 0
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                self.wfile.write(content[start : start + index.cut_after.pop(self.path, len(content))])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, name: str, content: bytes, package: str = "", version: str = "1.0", sha256: str = "") -> LockedFile:
        self.files[f"/{name}"] = content
        digest = sha256 or hashlib.sha256(content).hexdigest()
        return LockedFile(
            package or name.split("-")[0], version, f"{self.url}/{name}", digest, name.endswith(".tar.gz")
        )


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


UV_PROGRAM = b"#!/bin/sh\n"


def wheel(name: str = "small", version: str = "1.0", content: str = "") -> bytes:
    info, stream = f"{name}-{version}.dist-info", io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in (
            (f"{name}/__init__.py", content),
            (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            (f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (f"{info}/RECORD", ""),
        ):
            archive.writestr(zipfile.ZipInfo(path), text)  # without the time of day
    return stream.getvalue()


class TestFetch:
    def test_files_become_objects_and_are_not_asked_for_again(self, index: Index, tmp_path: Path) -> None:
        files = [index.add(f"p{i}-1.0-py3-none-any.whl", b"x" * i) for i in range(1, 20)]
        paths = fetch_all(files, tmp_path, Silent())
        assert {path.relative_to(tmp_path).as_posix() for path in paths.values()} == {
            object_key(file.sha256, file.name) for file in files
        }
        asked = len(index.requests)
        assert fetch_all(files, tmp_path, Silent()) == paths
        assert len(index.requests) == asked == len(files)

    def test_transfer_that_is_cut_goes_on_where_it_stopped(self, index: Index, tmp_path: Path) -> None:
        content = bytes(range(256)) * 40_000  # 10 MB
        file = index.add("big-1.0-py3-none-any.whl", content)
        index.cut_after["/big-1.0-py3-none-any.whl"] = 4_000_000
        (path,) = fetch_all([file], tmp_path, Silent()).values()
        assert path.read_bytes() == content
        first, second = [asked for _, asked in index.requests]
        assert first == "" and 0 < int(re.findall(r"\d+", second)[0]) <= 4_000_000

    def test_build_that_was_killed_goes_on_where_it_stopped(self, index: Index, tmp_path: Path) -> None:
        content = b"y" * 1_000_000
        file = index.add("big-1.0-py3-none-any.whl", content)
        partial = tmp_path / ".partial" / f"{file.sha256}-{file.name}"
        partial.parent.mkdir()
        partial.write_bytes(content[:600_000])
        fetch_all([file], tmp_path, Silent())
        assert index.requests == [(f"/{file.name}", "bytes=600000-")]

    def test_two_builds_at_once_share_each_download(self, index: Index, tmp_path: Path) -> None:
        files = [index.add(f"p{i}-1.0-py3-none-any.whl", b"x" * 1_000_000 + bytes([i])) for i in range(12)]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda _: fetch_all(files, tmp_path, Silent()), range(3)))
        assert found[0] == found[1] == found[2]
        assert sorted(index.requests) == sorted((f"/{file.name}", "") for file in files)
        assert list((tmp_path / ".partial").iterdir()) == []

    def test_other_content_than_the_lock_says_is_refused_and_not_kept(self, index: Index, tmp_path: Path) -> None:
        file = index.add("bad-1.0-py3-none-any.whl", b"evil", sha256="0" * 64)
        with pytest.raises(
            FetchError, match=r"bad-1\.0-py3-none-any\.whl has SHA-256 .*, the lock says 0{64}; refused"
        ):
            fetch_all([file], tmp_path, Silent())
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_what_a_killed_build_had_whole_is_taken_or_refused_by_its_hash(self, index: Index, tmp_path: Path) -> None:
        """The index answers 416 to a range that begins at the end."""
        whole = index.add("whole-1.0-py3-none-any.whl", b"all of it")
        other = index.add("other-1.0-py3-none-any.whl", b"as long")
        for file, content in ((whole, b"all of it"), (other, b"a lie..")):
            partial = tmp_path / ".partial" / f"{file.sha256}-{file.name}"
            partial.parent.mkdir(exist_ok=True)
            partial.write_bytes(content)
        (path,) = fetch_all([whole], tmp_path, Silent()).values()
        assert (path.read_bytes(), index.requests) == (b"all of it", [(f"/{whole.name}", "bytes=9-")])
        with pytest.raises(FetchError, match=r"other-1\.0-py3-none-any\.whl has SHA-256 .*; refused"):
            fetch_all([other], tmp_path, Silent())
        assert list((tmp_path / ".partial").iterdir()) == []
        (path,) = fetch_all([other], tmp_path, Silent()).values()
        assert path.read_bytes() == b"as long"

    def test_an_index_out_of_order_is_asked_again_and_then_named(self, index: Index, tmp_path: Path) -> None:
        file = index.add("small-1.0-py3-none-any.whl", b"content")
        index.status[f"/{file.name}"] = 503
        with pytest.raises(FetchError, match=r"small-1\.0-py3-none-any\.whl: the package index answers 503 for http"):
            fetch_all([file], tmp_path, Silent())
        assert len(index.requests) == 4

    def test_missing_file_is_named(self, index: Index, tmp_path: Path) -> None:
        file = index.add("gone-1.0-py3-none-any.whl", b"")
        del index.files["/gone-1.0-py3-none-any.whl"]
        with pytest.raises(FetchError, match=r"gone-1\.0-py3-none-any\.whl: the package index answers 404"):
            fetch_all([file], tmp_path, Silent())

    def test_index_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        file = LockedFile("x", "1", "http://127.0.0.1:1/x-1-py3-none-any.whl", "0" * 64)
        with pytest.raises(FetchError, match=r"x-1-py3-none-any\.whl cannot be fetched from 127\.0\.0\.1"):
            fetch_all([file], tmp_path, Silent())


def locked(training: Path, files: list[LockedFile]) -> Path:
    """A training directory whose locks name `files`, uv first."""
    directory = training / "locks"
    directory.mkdir(parents=True)
    for name, chosen in (("cpu-stable", files[1:]), ("bootstrap", files[:1])):
        text = 'lock-version = "1.0"\ncreated-by = "a test"\n'
        for file in chosen:
            kind = f'{{ url = "{file.url}", hashes = {{ sha256 = "{file.sha256}" }} }}'
            kind = f"sdist = {kind}" if file.is_sdist else f"wheels = [{kind}]"
            text += f'[[packages]]\nname = "{file.package}"\nversion = "{file.version}"\n{kind}\n'
        (directory / f"pylock.{name}.toml").write_text(text)
    write_made({"uv": hashlib.sha256(UV_PROGRAM).hexdigest()}, training)
    return training


def inputs_of(training: Path, overlay: Path | None = None, python_archive: Path | None = None) -> WheelhouseInputs:
    python = host_python(str(python_archive), HashCache(None), training) if python_archive else None
    return wheelhouse_inputs("cpu", "stable", HashCache(None), overlay, python, training)


def locking_python(training: Path, file: LockedFile) -> HostPython:
    """The Python of a lock that names `file` of an index as if it were published."""
    locked = LockedPython("3.12.9", "20260101", RELEASES + urlsplit(file.url).path, file.sha256)
    lock_path(training).write_text(python_lock.text(locked, "uv-1.0.tar.gz", "list.json"))
    return host_python(LOCKED, HashCache(None), training, training)


def uv_wheel(index: Index) -> LockedFile:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("uv-1.0.data/scripts/uv", UV_PROGRAM)
    return index.add("uv-1.0-py3-none-any.whl", stream.getvalue())


def objects(artifacts: Path, inputs: WheelhouseInputs) -> dict[str, str]:
    keys = objects_of(inputs.id, (artifacts / wheelhouse_key(inputs.id)).read_text())
    return {name: digest for _, digest, name in (key.split("/") for key in keys)}


def vouch(inputs: WheelhouseInputs, store: Path) -> None:
    """As `slipway wheels lock` does."""
    write_made(make(inputs, store, str(UV), Silent()), inputs.training)


class TestBuild:
    def test_wheelhouse_names_every_object_by_its_hash(self, index: Index, tmp_path: Path) -> None:
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        inputs = inputs_of(locked(tmp_path / "training", [uv_wheel(index), file]))
        made = build(inputs, tmp_path / "store", str(UV), Silent())
        assert made == objects(tmp_path / "store", inputs)
        assert made.keys() == {"uv", file.name}
        for name, digest in made.items():
            content = (tmp_path / "store" / object_key(digest, name)).read_bytes()
            assert hashlib.sha256(content).hexdigest() == digest
        assert made[file.name] == file.sha256

    def test_sdist_is_built_into_a_wheel(self, index: Index, tmp_path: Path) -> None:
        """Its build back end lies in it, so that nothing is fetched."""
        backend = (
            "import pathlib, sys\n"
            f"def build_wheel(out, *_):\n    name = 'source-1.0-py3-none-any.whl'\n"
            f"    pathlib.Path(out, name).write_bytes({wheel('source')!r})\n    return name\n"
        )
        project = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        project += '[project]\nname = "source"\nversion = "1.0"\n'
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name, text in (("own.py", backend), ("pyproject.toml", project), ("PKG-INFO", "Name: source\n")):
                member = tarfile.TarInfo(f"source-1.0/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        file = index.add("source-1.0.tar.gz", stream.getvalue())
        inputs = inputs_of(locked(tmp_path / "training", [uv_wheel(index), file]))
        vouch(inputs, tmp_path / "store")
        made = build(inputs, tmp_path / "store", str(UV), Silent())
        assert made["source-1.0-py3-none-any.whl"] == hashlib.sha256(wheel("source")).hexdigest()

    def test_a_jaxlib_that_lacks_a_flag_of_gpus_is_refused_and_leaves_no_wheelhouse(
        self, index: Index, tmp_path: Path
    ) -> None:
        file = index.add("jaxlib-1.0-py3-none-any.whl", wheel("jaxlib"))
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        lock = training / "locks" / "pylock.cpu-stable.toml"
        lock.rename(lock.with_name("pylock.gpu-stable.toml"))
        inputs = wheelhouse_inputs("gpu", "stable", HashCache(None), None, None, training)
        with pytest.raises(BuildError, match=r"^jaxlib-1\.0-py3-none-any\.whl does not know --xla_gpu_all_gather_"):
            build(inputs, tmp_path / "store", str(UV), Silent())
        assert not (tmp_path / "store" / wheelhouse_key(inputs.id)).exists()

    def test_sdist_that_does_not_build_is_named(self, index: Index, tmp_path: Path) -> None:
        file = index.add("broken-1.0.tar.gz", b"not an archive")
        inputs = inputs_of(locked(tmp_path / "training", [uv_wheel(index), file]))
        with pytest.raises(BuildError, match=r"broken-1\.0\.tar\.gz has no wheel and cannot be built into one: "):
            build(inputs, tmp_path / "store", str(UV), Silent())
        assert not (tmp_path / "store" / wheelhouse_key(inputs.id)).exists()

    def test_overlay_replaces_the_locked_wheel_and_changes_the_id(self, index: Index, tmp_path: Path) -> None:
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        overlay = tmp_path / "overlay"
        overlay.mkdir()
        (overlay / "small-2.0.dev1-py3-none-any.whl").write_bytes(wheel("small", "2.0.dev1"))
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        plain, inputs = inputs_of(training), inputs_of(training, overlay)
        made = build(inputs, tmp_path / "store", str(UV), Silent())
        digest = hashlib.sha256(wheel("small", "2.0.dev1")).hexdigest()
        assert inputs.id != plain.id
        assert made.keys() == {"uv", "small-2.0.dev1-py3-none-any.whl"}
        assert inputs.overlay_sums == f"{digest}  small-2.0.dev1-py3-none-any.whl\n"
        assert f"/{file.name}" not in [path for path, _ in index.requests]
        assert [str(each) for each in inputs.overlay] == [
            f"small 2.0.dev1 (small-2.0.dev1-py3-none-any.whl, sha256 {digest[:12]})"
        ]

    def test_python_archive_is_an_object_and_part_of_the_id(self, index: Index, tmp_path: Path) -> None:
        archive = python_archive(tmp_path)
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        plain, inputs = inputs_of(training), inputs_of(training, python_archive=archive)
        build(inputs, tmp_path / "store", str(UV), Silent())
        assert inputs.id != plain.id
        assert objects(tmp_path / "store", inputs)[NAME] == hashlib.sha256(archive.read_bytes()).hexdigest()
        python_archive(tmp_path, header() + b"another one")
        assert inputs_of(training, python_archive=archive).id not in (plain.id, inputs.id)
        with pytest.raises(BuildError, match=f"{NAME} has changed while the wheelhouse was built; run it again"):
            build(inputs, tmp_path / "store", str(UV), Silent())

    def test_what_mounts_a_bucket_is_an_object_and_part_of_the_id(self, index: Index, tmp_path: Path) -> None:
        """Of a store that has it: tests/training/test_mounted.py builds it."""
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        program = MountProgram(hashlib.sha256(b"a program").hexdigest())
        inputs = wheelhouse_inputs("cpu", "stable", HashCache(None), training=training, mount_program=program)
        assert inputs.id != inputs_of(training).id
        stored = tmp_path / "store" / object_key(program.sha256, "gcsfuse")
        stored.parent.mkdir(parents=True)
        stored.write_bytes(b"a program")
        build(inputs, tmp_path / "store", str(UV), Silent())
        assert objects(tmp_path / "store", inputs)["gcsfuse"] == program.sha256

    def test_locked_python_is_fetched_from_the_mirror_and_becomes_an_object(
        self, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        python = locking_python(training, index.add("20260101/cpython-3.12.9%2B20260101.tar.gz", b"a release"))
        inputs = wheelhouse_inputs("cpu", "stable", HashCache(None), None, python, training)
        monkeypatch.setenv(MIRROR, f"{index.url}/")
        made = build(inputs, tmp_path / "store", str(UV), Silent())
        assert made["cpython-3.12.9+20260101.tar.gz"] == hashlib.sha256(b"a release").hexdigest()
        assert (tmp_path / "store" / object_key(python.sha256, python.name)).read_bytes() == b"a release"

    def test_python_that_cannot_be_fetched_stops_the_build_first_and_says_what_to_do(
        self, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = index.add("small-1.0-py3-none-any.whl", wheel())
        training = locked(tmp_path / "training", [uv_wheel(index), file])
        python = locking_python(training, index.add("20260101/cpython.tar.gz", b"a lie", sha256="0" * 64))
        inputs = wheelhouse_inputs("cpu", "stable", HashCache(None), None, python, training)
        index.requests.clear()
        for mirror, said in (("http://127.0.0.1:1", "cannot be fetched from 127.0.0.1"), (index.url, "; refused")):
            monkeypatch.setenv(MIRROR, mirror)
            with pytest.raises(FetchError, match=said) as caught:
                build(inputs, tmp_path / "store", str(UV), Silent())
            assert str(caught.value).endswith(f"; or {ADVICE}")
        assert index.requests == [("/20260101/cpython.tar.gz", "")]
        assert not (tmp_path / "store" / wheelhouse_key(inputs.id)).exists()

    @pytest.mark.parametrize("terminal", [False, True])
    def test_a_build_is_shown_by_the_file_where_nobody_watches(
        self,
        index: Index,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        terminal: bool,
    ) -> None:
        monkeypatch.setattr(wheelhouses, "ARTIFACTS", tmp_path / "store")
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")  # rich writes as to a terminal
        file = index.add("small-1.0-py3-none-any.whl", wheel(content="# " + "x" * 2_000_000))
        inputs = inputs_of(locked(tmp_path / "training", [uv_wheel(index), file]))
        wheelhouses.ensure_built(inputs)
        *lines, last = capsys.readouterr().out.splitlines()
        assert last == f"wheelhouse {inputs.id}: 2 files, 2 MB"
        assert [line.partition(":")[0] for line in lines] == ([] if terminal else ["1 of 2 files", "2 of 2 files"])
        wheelhouses.ensure_built(inputs)
        assert capsys.readouterr().out == "", "what is there is not built again"

    def test_patched_package_gets_a_local_version(self, index: Index, tmp_path: Path) -> None:
        file = index.add("small-1.0-py3-none-any.whl", wheel(content="old = 1\n"))
        own = tmp_path / "training" / "patches" / "small-1.0"
        own.mkdir(parents=True)
        (own / "0001-new.patch").write_text(
            "--- a/small/__init__.py\n+++ b/small/__init__.py\n@@ -1 +1 @@\n-old = 1\n+new = 1\n"
        )
        expected = hashlib.sha256(b"old = 1\n").hexdigest()
        (own / "files.sha256").write_text(f"{expected}  small/__init__.py\n")
        inputs = inputs_of(locked(tmp_path / "training", [uv_wheel(index), file]))
        with pytest.raises(BuildError, match=r"so hosts would refuse it: locks or patches have changed; run slipway"):
            build(inputs, tmp_path / "store", str(UV), Silent())
        vouch(inputs, tmp_path / "store")
        (name,) = build(inputs, tmp_path / "store", str(UV), Silent()).keys() - {"uv"}
        assert re.fullmatch(r"small-1\.0\+slipway\.[0-9a-z]+-py3-none-any\.whl", name)


def test_what_hosts_may_install_besides_locks_is_what_is_made_of_them_here() -> None:
    """Made anew of what was fetched for the suite; a lock or a patch that changed needs `slipway wheels lock`."""
    inputs = wheelhouse_inputs("cpu", "stable", HashCache(None))
    assert sums_text(make(inputs, ARTIFACTS, str(UV), Silent())) == made_sums()


def test_id_depends_on_patches_and_nothing_on_the_machine(tmp_path: Path) -> None:
    plain = wheelhouse_inputs("cpu", "stable", HashCache(None))
    assert wheelhouse_inputs("cpu", "stable", HashCache(tmp_path / "cache.json")) == plain
    assert wheelhouse_inputs("tpu", "stable", HashCache(None)).id != plain.id
    for name in ("locks", "patches"):
        shutil.copytree(TRAINING / name, tmp_path / name)
    assert inputs_of(tmp_path).id == plain.id
    (patch, *_) = (tmp_path / "patches").glob("*/*.patch")
    patch.write_text(patch.read_text() + "\n")
    assert inputs_of(tmp_path).id != plain.id


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "holds no wheel"),
        (["small.whl"], "small.whl is not named as a wheel is"),
        (["small-1.0-py3-none-any.whl", "small-2.0-py3-none-any.whl"], "two wheels of small"),
    ],
)
def test_overlay_that_cannot_be_used_is_refused(tmp_path: Path, names: list[str], said: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(LockError, match=said):
        wheelhouse_inputs("cpu", "stable", HashCache(None), tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lock-version = ", " cannot be used: Invalid value"),
        ('created-by = "a test"\npackages = []\n', " cannot be used: Missing required value in 'lock-version'"),
        (
            'lock-version = "1.0"\ncreated-by = "a test"\n[[packages]]\nname = "small"\nversion = "1.0"\n'
            'directory = { path = "small" }\n',
            ": small is no hashed file of a package index",
        ),
    ],
)
def test_a_lock_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    lock = tmp_path / "pylock.cpu-stable.toml"
    lock.write_text(text)
    with pytest.raises(LockError, match=re.escape(f"pylock.cpu-stable.toml{said}")):
        locked_files(lock)


def test_python_is_packed_the_same_every_time(tmp_path: Path) -> None:
    home = tmp_path / "cpython-3.12.1"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3.12").write_text("#!/bin/sh\n")
    (home / "bin" / "python3").symlink_to("python3.12")
    first = pack_python(home, tmp_path / "1.tar.gz").read_bytes()
    (home / "bin" / "python3.12").touch()
    (home / "x.pyc").touch()
    assert pack_python(home, tmp_path / "2.tar.gz").read_bytes() == first
    listing = subprocess.run(["tar", "-tzf", tmp_path / "1.tar.gz"], capture_output=True, text=True, check=True)
    assert "python/bin/python3.12\n" in listing.stdout
