"""The hosts' locks: nothing but hashed files of a package index, and what `training/uv.lock` says."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import parse_wheel_filename

from infra.host_software.wheels.locks import PLATFORMS, STABLE, LockError, bootstrap_lock, lock_path
from infra.host_software.wheels.selection import locked_files
from infra.paths import ROOT, TRAINING, UV

COMMITTED = sorted((TRAINING / "locks").glob("pylock.*.toml"))
# What MaxText's own extras bring and training does not need.
UNWANTED = ("tensorflow", "torch", "transformer-engine", "transformer-engine-jax", "datasets", "pylint", "pytype")


def packages(lock: Path) -> list[dict[str, Any]]:
    return tomllib.loads(lock.read_text())["packages"]


def test_each_platform_has_a_lock() -> None:
    assert {lock_path(platform, STABLE) for platform in PLATFORMS} | {bootstrap_lock()} <= set(COMMITTED)


@pytest.mark.parametrize("lock", COMMITTED, ids=lambda lock: lock.name)
def test_no_url_or_vcs_requirement(lock: Path) -> None:
    for package in packages(lock):
        assert not {"vcs", "archive", "directory"} & package.keys(), package["name"]
        assert package["index"].startswith("https://"), package["name"]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files and all(file["hashes"]["sha256"] for file in files), package["name"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_lock_is_what_uv_exports(platform: str) -> None:
    """`make lock` was run after the last change of training/uv.lock."""
    command = f"export --quiet --frozen --no-dev --no-emit-project --no-header --project {TRAINING} --extra {platform}"
    done = subprocess.run(
        [UV, *command.split(), "--format", "pylock.toml"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    exported = tomllib.loads(done.stdout)["packages"]
    assert [(each["name"], each["version"]) for each in exported] == [
        (each["name"], each["version"]) for each in packages(lock_path(platform, STABLE))
    ]
    assert exported == packages(lock_path(platform, STABLE))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_hosts_get_one_wheel_of_each_package_and_nothing_unneeded(platform: str) -> None:
    files = locked_files(lock_path(platform, STABLE))
    assert len({file.package for file in files}) == len(files)
    assert not {file.package for file in files} & set(UNWANTED)
    of_buckets = {"google-cloud-core", "google-cloud-storage", "google-cloud-storage-control"}
    assert {file.package for file in files if file.package.startswith("google-cloud")} == of_buckets
    for file in files:
        assert not file.is_sdist, file.name
        name, version, _, tags = parse_wheel_filename(file.name)
        assert (name, str(version)) == (file.package, file.version)
        assert all(tag.platform == "any" or "x86_64" in tag.platform for tag in tags)


def test_platforms_differ_by_their_runtime_alone() -> None:
    """All have the clients of a bucket, so that checkpoints in gs:// are tried where no accelerator is."""
    names = {platform: {file.package for file in locked_files(lock_path(platform, STABLE))} for platform in PLATFORMS}
    assert names["tpu"] - names["cpu"] == {"libtpu"}
    assert "jax-cuda13-plugin" in names["gpu"] - names["tpu"]
    assert {"gcsfs", "google-cloud-storage"} <= names["cpu"] == names["tpu"] & names["gpu"]


def test_uv_of_the_hosts_is_the_one_that_setup_installs() -> None:
    (uv,) = locked_files(bootstrap_lock())
    assert f"uv_version={uv.version}\n" in (ROOT / "tools" / "setup.sh").read_text()


def test_missing_nightly_lock_says_how_to_make_it() -> None:
    with pytest.raises(LockError, match="make lock CHANNEL=nightly"):
        locked_files(lock_path("tpu", "nightly"))


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ('vcs = { type = "git", url = "https://example.org/x.git", commit-id = "0" }', "is no hashed file"),
        ('directory = { path = "../x" }', "is no hashed file"),
    ],
)
def test_lock_with_another_kind_of_requirement_is_refused(tmp_path: Path, package: str, said: str) -> None:
    lock = tmp_path / "pylock.bad.toml"
    lock.write_text(
        f'lock-version = "1.0"\ncreated-by = "a test"\n[[packages]]\nname = "x"\nversion = "1"\n{package}\n'
    )
    with pytest.raises(LockError, match=said):
        locked_files(lock)
