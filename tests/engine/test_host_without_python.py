"""A host whose image has no Python: bootstrap.sh on a root file system like a TPU VM's, from a bucket.

Its Python is what `slipway wheels python` makes of the one that runs this.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.emulators.metadata_server import MetadataServer
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, TpuApi
from infra.emulators.tpu_hosts import booted_cloud
from infra.emulators.tpu_hosts.accounts import account
from infra.emulators.tpu_hosts.booted_cloud import BootedCloud
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.system import ABSENT
from infra.host_roles import BUCKET_ROLES, PROJECT_ROLES
from infra.host_software.bundle import Bundle
from infra.host_software.wheels.pythons import locked_python
from infra.paths import TRAINING
from infra.vm_hosts.startup_script import HostScript, startup_script
from tests.emulators.instant import INSTANT
from tests.engine.bare_root import ANY_GLIBC, BareRoot
from tests.engine.project import until
from tests.engine.small_store import SmallStore
from tests.python_archive import AARCH64, header, python_archive

PLACE = "projects/p/locations/us-east5-b"
ARTIFACTS = BUCKET_ROLES["artifacts"]
SECRET, ACCOUNT = "ya29.only-for-the-bucket", "hosts@p.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("python")
    done = CliRunner().invoke(app, ["wheels", "python", "--out", str(out), "--glibc-minor", str(ANY_GLIBC)])
    (made,) = out.iterdir()
    assert done.stdout.startswith(f"{made} ("), done.output
    assert f"which is not the locked release ({locked_python()})\n" in done.stdout
    assert done.stdout.endswith(f"a stack takes it with: slipway:python_archive: {made}\n")
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> BareRoot:
    return BareRoot(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture
def bucket(tmp_path: Path) -> SmallStore:
    return SmallStore(tmp_path / "buckets" / "bucket", tmp_path / "made from")


def test_it_installs_offline_and_has_every_module(root: BareRoot, archive: Path, bucket: SmallStore) -> None:
    assert root.run("bash", "-c", f"type {' '.join(ABSENT)}").stdout == ""
    digest = bucket.add(archive)
    bundle = bucket.bundle(bucket.wheelhouse(), python=f"{digest}  {archive.name}\n")
    done = _boot(root, bucket, bundle)
    assert done.returncode == 0, done.stderr
    directory, python = done.stdout.splitlines()
    assert directory == f"/var/lib/slipway/bundles/{bundle.hash}"
    check = "import bz2, ctypes, curses, lzma, readline, sqlite3, ssl, sys, uuid, small; print(sys.base_prefix)"
    run = root.run(python, "-c", check)
    assert run.stdout == f"/var/lib/slipway/python/{digest[:16]}/python\n", run.stderr


def test_the_startup_script_of_an_emulated_host_installs_it_and_starts_it_as_its_account(
    archive: Path, bucket: SmallStore, tmp_path: Path
) -> None:
    """From an empty disk, once it may read the bucket; where hosts share a root it is the same, but for the account."""
    digest = bucket.add(archive)
    bundle = bucket.bundle(bucket.wheelhouse(), python=f"{digest}  {archive.name}\n")
    script = startup_script(
        HostScript("s", 1, 1, 1, "gs://bucket", bundle.hash), (TRAINING / "bootstrap.sh").read_text()
    )
    script = script.replace("RestartSec=15", "RestartSec=1")  # nobody waits for it here
    with (
        TpuApi(Cloud(INSTANT)) as api,
        ObjectStore(bucket.directory.parent) as store,
        booted_cloud.boot(api, store, tmp_path / "hosts") as cloud,
    ):
        store.policies.begin_project("p", {PROJECT_ROLES["logs"]: [f"serviceAccount:{ACCOUNT}"]})
        metadata = {"startup-script": script, "enable-guest-attributes": "TRUE"}
        node = {"acceleratorType": "vcpu-1", "runtimeVersion": "tpu-ubuntu2204-base", "metadata": metadata}
        node["serviceAccount"] = {"email": ACCOUNT}
        httpx.post(f"{api.url}/v2/{PLACE}/nodes?nodeId=n", json=node).raise_for_status()
        refused = f"fetching from gs://bucket: 403 for bundle.tar; this host's account needs {ARTIFACTS} there"
        until(lambda: any(refused in line for line in lines_of(cloud)), "it has no role on the bucket, and says which")
        store.policies.begin("bucket", "p", {ARTIFACTS: [f"serviceAccount:{ACCOUNT}"]})
        logged = until(lambda: [line for line in lines_of(cloud) if line.startswith("launched ")], "it has started")
        (disk,) = cloud.fleet.directory.iterdir()
        image = Image(disk, cloud.fleet.has_roots)
        environment = image.home / "software/env" / bundle.files["wheelhouse"].decode().strip()
        assert logged[0].startswith(
            f"launched {bundle.hash} {image.seen(environment)}/lib/python3.12/site-packages/small/"
        )
        assert (environment / "bin/python").readlink().is_relative_to(image.seen(image.home / "software/python"))
        if cloud.fleet.has_roots:
            trainer = account(disk, "slipway")
            assert trainer and environment.stat().st_uid == trainer.uid, "whoever made it"


def lines_of(cloud: BootedCloud) -> list[str]:
    """What Cloud Logging has of its hosts' trainings."""
    return [entry["jsonPayload"]["message"] for entry in cloud.services.entries]


def test_what_cannot_be_its_python_is_refused_for_good(root: BareRoot, bucket: SmallStore, tmp_path: Path) -> None:
    """Exit code 2: no start changes it, and systemd tries no other."""
    other = python_archive(tmp_path, header(AARCH64))
    wheelhouse, line = bucket.wheelhouse(), f"{bucket.add(other)}  {other.name}\n"
    listed = bucket.wheelhouse()
    for bundle, said in (
        (
            bucket.bundle(wheelhouse),
            "this host has no Python 3.12 and the bundle names none; set slipway:python_archive, then pulumi up",
        ),
        (
            bucket.bundle(wheelhouse, python=line),
            f"wheelhouse {wheelhouse} has not the Python that bundle HASH names ({other.name}, SHA-256 "
            f"{line[:12]}); refused",
        ),
        (
            bucket.bundle(listed, python=line),
            f"the Python of {other.name} does not run on this host (x86_64): ",
        ),
    ):
        done = _boot(root, bucket, bundle)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"bootstrap: {said.replace('HASH', bundle.hash)}" in done.stderr
        assert not (root.directory / "var/lib/slipway/env" / bundle.files["wheelhouse"].decode().strip()).exists()


def _boot(root: BareRoot, bucket: SmallStore, bundle: Bundle) -> subprocess.CompletedProcess[str]:
    shutil.copy(TRAINING / "bootstrap.sh", root.directory / "root")
    with (
        MetadataServer(token=SECRET) as metadata,
        ObjectStore(bucket.directory.parent, token=SECRET) as objects,
    ):
        return root.run(
            "bash",
            "/root/bootstrap.sh",
            SLIPWAY_ARTIFACTS="gs://bucket",
            SLIPWAY_BUNDLE=bundle.hash,
            SLIPWAY_ROOT="/var/lib/slipway",
            SLIPWAY_HOST_DIR="/var/lib/slipway/host",
            SLIPWAY_BOOTSTRAP_ONLY="1",
            GCE_METADATA_HOST=metadata.host,
            SLIPWAY_STORAGE_ENDPOINT=objects.url,
        )
