"""The bundle's hash: a function of its files and nothing else."""

from __future__ import annotations

import os
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from infra.artifacts.layout import bundle_key
from infra.artifacts.store import LocalStore, StoreError
from infra.host_software.bundle import MANIFEST, Bundle, BundleContents, collect, put, wheelhouse_of
from infra.host_software.wheels.locks import PLATFORMS, STABLE, lock_path
from infra.paths import TRAINING

CONTENTS = BundleContents("steps: 1\n", "0" * 16, lock_path("cpu", STABLE))


def copied(target: Path) -> Path:
    return shutil.copytree(TRAINING, target, ignore=shutil.ignore_patterns("__pycache__"))


def test_same_files_elsewhere_with_other_times_and_caches_have_the_same_hash(tmp_path: Path) -> None:
    clone = copied(tmp_path / "another clone" / "training")
    for path in clone.rglob("*"):
        os.utime(path, (0, 0))
    (clone / "__pycache__").mkdir()
    (clone / "__pycache__" / "launch.cpython-312.pyc").write_bytes(b"compiled")
    (clone / ".venv").mkdir()
    (clone / ".venv" / "code.py").write_text("not ours\n")
    here, there = collect(TRAINING, CONTENTS), collect(clone, CONTENTS)
    assert here.hash == there.hash
    assert here.archive() == there.archive()


@pytest.mark.parametrize(
    "changed",
    [
        "training/launch.py",
        "training/bootstrap.sh",
        "training/data/prepare.py",
        "run_spec.yaml",
        "wheelhouse",
        "pylock.toml",
    ],
)
def test_one_changed_byte_changes_the_hash(changed: str) -> None:
    bundle = collect(TRAINING, CONTENTS)
    other = Bundle({**bundle.files, changed: bundle.files[changed] + b"\n"})
    assert other.hash != bundle.hash


def test_file_that_moves_changes_the_hash() -> None:
    bundle = collect(TRAINING, CONTENTS)
    moved = {("training/x.py" if path == "training/plan.py" else path): data for path, data in bundle.files.items()}
    assert Bundle(moved).hash != bundle.hash


def test_it_holds_what_hosts_run_and_nothing_else() -> None:
    files = collect(TRAINING, CONTENTS).files
    assert {"training/launch.py", "training/bootstrap.sh", "training/data/prepare.py", "run_spec.yaml"} <= files.keys()
    assert files["wheelhouse"] == b"0000000000000000\n"
    assert not [path for path in files if "locks/" in path or "patches/" in path or path.endswith((".json", ".pyc"))]


def test_model_file_of_the_user_travels_in_it(tmp_path: Path) -> None:
    model = tmp_path / "mine.yml"
    model.write_text("base_emb_dim: 64\n")
    with_model = collect(TRAINING, BundleContents("steps: 1\n", "0" * 16, CONTENTS.lock, model))
    assert with_model.files["model/mine.yml"] == b"base_emb_dim: 64\n"
    assert with_model.hash != collect(TRAINING, CONTENTS).hash


def test_archive_unpacks_to_the_files_and_their_manifest() -> None:
    bundle = collect(TRAINING, CONTENTS)
    with tarfile.open(fileobj=BytesIO(bundle.archive())) as archive:
        streams = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        unpacked = {name: stream.read() for name, stream in streams.items() if stream}
    assert unpacked.pop(MANIFEST) == bundle.manifest
    assert unpacked == bundle.files


def test_put_is_once(tmp_path: Path) -> None:
    store, bundle = LocalStore(tmp_path / "store"), collect(TRAINING, CONTENTS)
    put(bundle, store)
    first = store.path(bundle_key(bundle.hash)).stat()
    put(bundle, store)
    assert store.path(bundle_key(bundle.hash)).stat().st_ino == first.st_ino


def test_every_platform_has_its_lock() -> None:
    hashes = {collect(TRAINING, BundleContents("", "0" * 16, lock_path(name, STABLE))).hash for name in PLATFORMS}
    assert len(hashes) == len(PLATFORMS)


def test_a_bundle_tells_which_wheelhouse_it_installs() -> None:
    assert wheelhouse_of(collect(TRAINING, CONTENTS).archive()) == "0" * 16


def archive_with(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size, member.type = len(content), kind
        archive.addfile(member, BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    "archive",
    [
        b"no archive",
        archive_with("run_spec.yaml"),
        archive_with("wheelhouse", b"\xff\xfe"),
        archive_with("wheelhouse", kind=tarfile.DIRTYPE),
    ],
    ids=["no archive", "without it", "no text", "a directory"],
)
def test_what_is_no_bundle_stops_before_anything_is_deleted_for_it(archive: bytes) -> None:
    """`slipway gc` asks it which wheelhouse is in use: a guess would delete what a host is about to install."""
    with pytest.raises(StoreError, match="is no archive with the name of its wheelhouse; push it again, then run gc"):
        wheelhouse_of(archive)
