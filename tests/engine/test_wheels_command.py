"""`slipway wheels` as a person uses it: build, push to a bucket, and a host that installs from there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.store import LocalStore
from infra.emulators.metadata_server import TOKEN, MetadataServer
from infra.emulators.object_store import ObjectStore
from infra.host_software import wheelhouses
from infra.host_software.bundle import put
from infra.host_software.installation import COMMAND, Installation
from infra.host_software.wheels.locks import STABLE
from tests.engine.clone import Clone, said
from tests.engine.small_store import SmallStore


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    yield Clone.make(tmp_path_factory.mktemp("clone") / "wheels")


def slipway(clone: Clone, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        clone.command("slipway", "wheels", *arguments),
        cwd=clone.directory,
        env=clone.environment | environment,
        capture_output=True,
        text=True,
    )


def test_what_is_there_is_built_again_to_the_same_wheelhouse(clone: Clone) -> None:
    built = slipway(clone, "build", "--platform", "cpu")
    assert built.returncode == 0, said(built)
    assert f"wheelhouse {wheelhouses.inputs_of('cpu', STABLE, None, None).id}: " in built.stdout


@pytest.fixture(scope="module")
def own_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone that has built nothing yet."""
    made = Clone.make(tmp_path_factory.mktemp("clone") / "own artifacts")
    (made.directory / ".slipway" / "artifacts").unlink()
    return made


def test_what_is_pushed_to_a_bucket_is_what_a_host_installs(own_artifacts: Clone, tmp_path: Path) -> None:
    """One wheel and the real uv; hosts that install MaxText from a bucket are those of test_booted_hosts.py."""
    built = SmallStore(own_artifacts.directory / ".slipway" / "artifacts", tmp_path / "work")
    wheelhouse = built.wheelhouse("of = 'the bucket'\n")
    with ObjectStore(tmp_path / "buckets") as objects, MetadataServer() as metadata:
        for uploaded in (True, False):
            pushed = slipway(
                own_artifacts, "push", "gs://bucket/slipway", wheelhouse, STORAGE_EMULATOR_HOST=objects.url
            )
            assert pushed.returncode == 0, said(pushed)
            assert (": 0 files (0 MB) uploaded" in pushed.stdout) is not uploaded, pushed.stdout
        bundle = built.bundle(wheelhouse)
        put(bundle, LocalStore(tmp_path / "buckets" / "bucket" / "slipway"))
        host = Installation("gs://bucket/slipway", bundle.hash, str(tmp_path / "installed")).environment_only
        server = {"GCE_METADATA_HOST": metadata.host, "SLIPWAY_STORAGE_ENDPOINT": objects.url}
        done = subprocess.run(COMMAND, env=os.environ | host | server, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    check = "import small; print(small.of)"
    found = subprocess.run([done.stdout.splitlines()[-1], "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "the bucket\n"


@pytest.mark.parametrize(
    ("arguments", "said_"),
    [
        (["build", "--platform", "npu"], "platform is 'npu'; give one of: cpu, tpu, gpu"),
        (["build", "--platform", "cpu", "--channel", "beta"], "channel is 'beta'; give one of: stable, nightly"),
        (["build", "--platform", "tpu", "--channel", "nightly"], "make it with: make lock CHANNEL=nightly"),
        (["build", "--platform", "cpu", "--overlay", "/nowhere"], "overlay /nowhere holds no wheel"),
        (["build", "--platform", "cpu", "--expect", "0" * 16], f"changed since the preview ({'0' * 16} is now "),
        (["push", "gs://bucket"], "name a wheelhouse to push; built here: "),
        (["push", "s3://bucket", "0" * 16], "name a wheelhouse to push; built here: "),
    ],
)
def test_what_cannot_be_is_one_sentence(clone: Clone, arguments: list[str], said_: str) -> None:
    done = slipway(clone, *arguments)
    assert done.returncode == 2
    assert said_ in " ".join(done.stderr.split()), said(done)
    assert "Traceback" not in done.stderr


def test_push_of_an_index_that_is_not_understood_says_its_line(own_artifacts: Clone, tmp_path: Path) -> None:
    index = own_artifacts.directory / ".slipway" / "artifacts" / "wheelhouses" / ("a" * 16) / "SHA256SUMS"
    index.parent.mkdir(parents=True)
    index.write_bytes(b"not \xff a sum\n")
    done = slipway(own_artifacts, "push", str(tmp_path / "elsewhere"), "a" * 16)
    assert done.returncode == 2
    assert (
        f"line 1 of wheelhouses/{'a' * 16}/SHA256SUMS is 'not \ufffd a sum', not '<sha256>  <file name>'" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_nightly_lock_without_its_index_says_so_and_changes_nothing(clone: Clone) -> None:
    before = sorted(path.name for path in (clone.directory / "training" / "locks").iterdir())
    done = subprocess.run(
        ["tools/lock.sh", "nightly"],
        cwd=clone.directory,
        env=clone.environment | {"SLIPWAY_NIGHTLY_INDEX": "http://127.0.0.1:1/simple", "UV_HTTP_TIMEOUT": "5"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "no nightly lock for cpu: http://127.0.0.1:1/simple cannot be used" in done.stderr
    assert "set SLIPWAY_NIGHTLY_INDEX" in done.stderr
    assert sorted(path.name for path in (clone.directory / "training" / "locks").iterdir()) == before
