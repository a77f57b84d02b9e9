"""Prepared text through a mount of an emulated bucket: the real gcsfuse, as the service of a host runs it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.metadata_server import EMAIL, TOKEN, MetadataServer
from infra.emulators.object_store import ObjectStore
from tests.training.cluster import ROOT
from training.bucket_reader import BucketReadError
from training.data.identity import MANIFEST, DataError, FileEntry, Manifest, Split, TokenizerEntry, content_of
from training.data.mounted import wait_for_mount
from training.data.shards import read_shard, write_shard
from training.endings import Cause, of_mount
from training.plan import Plan
from training.run_spec import DataSpec

CONTENT = content_of({}, {})
SHARD = "train-0.array_record"
PROGRAM = (ROOT / "tools" / "gcsfuse" / "made.sums").read_text().split()[0]
READER = frozenset(("roles/storage.objectViewer",))


class MountingHost:
    """What mount.sh needs of a host: its directory below `home`, the metadata server, two buckets with its rights."""

    def __init__(self, home: Path, store: ObjectStore, metadata: MetadataServer) -> None:
        self.home, self.store = home, store
        self.environ = {
            "PATH": os.environ["PATH"],
            "SLIPWAY_STORAGE_ENDPOINT": store.url,
            "GCE_METADATA_HOST": metadata.host,
            "GCE_METADATA_IP": metadata.host,
            "no_proxy": "*",
        }
        programs = home / "programs"
        programs.mkdir(parents=True)
        shutil.copy(ROOT / "infra" / "vm_hosts" / "mount.sh", programs)
        (programs / "variables.sh").write_text(
            f"SLIPWAY_ARTIFACTS=gs://artifacts\nSLIPWAY_DATA_MOUNT=gs://data/prepared\nSLIPWAY_MOUNT_PROGRAM={PROGRAM}\n"
        )

    @property
    def at(self) -> Path:
        return self.home / "data-mount"

    @property
    def data(self) -> DataSpec:
        return DataSpec(str(self.at / CONTENT), CONTENT, 1, f"gs://data/prepared/{CONTENT}")

    @property
    def stored(self) -> Path:
        """The text in its bucket."""
        return self.store.root / "data" / "prepared" / CONTENT

    @contextlib.contextmanager
    def service(self) -> Iterator[subprocess.Popen[str]]:
        """mount.sh as systemd starts it, and ends it: with all that it has started."""
        command = ["bash", str(self.home / "programs" / "mount.sh")]
        pipe = subprocess.PIPE
        running = subprocess.Popen(
            command, env=self.environ, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            yield running
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            subprocess.run(["umount", "-l", self.at], capture_output=True, check=False)

    def refused(self) -> str:
        """What it says that mounts nothing, and what the training then says."""
        with self.service() as service:
            said, _ = service.communicate(timeout=120)
            assert service.returncode != 0
        with pytest.raises(BucketReadError) as caught:
            wait_for_mount(self.data, print, patience_s=0)
        assert str(caught.value).removeprefix(f"{self.data.mounted_from} is not mounted at {self.at}: ") in said
        return str(caught.value)

    def kill_gcsfuse(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[0] == bytes(self.home / "programs" / "gcsfuse"):
                    os.kill(int(process.name), signal.SIGKILL)


def prepared(directory: Path) -> Manifest:
    directory.mkdir(parents=True)
    noise = random.Random(1)  # which no compression makes so small that the kernel would have read all of it ahead
    shard = write_shard(directory / SHARD, (noise.randbytes(20_000) for _ in range(600)))
    heldout = write_shard(directory / "heldout-0.array_record", (b"text" for _ in range(4)))
    model = b"pieces" * 100
    (directory / "tokenizer.model").write_bytes(model)
    tokenizer = FileEntry("tokenizer.model", hashlib.sha256(model).hexdigest(), len(model))
    train, held_out = (Split(1, 1, 1, 1, 1, 1.0, (each.file,)) for each in (shard, heldout))
    manifest = Manifest(1, CONTENT, 0, {}, (), train, held_out, TokenizerEntry(tokenizer, 4096, 0, 1, 2, 3))
    (directory / MANIFEST).write_text(manifest.to_json())
    return manifest


@pytest.fixture(scope="module")
def gcsfuse() -> Path:
    """Built once on a machine, which takes minutes; from then on found."""
    built = subprocess.run([ROOT / "tools" / "gcsfuse.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())


@pytest.fixture
def host(tmp_path: Path, gcsfuse: Path) -> Iterator[MountingHost]:
    access = BucketAccess({TOKEN: EMAIL}, {name: {EMAIL: READER} for name in ("artifacts", "data")})
    store = ObjectStore(tmp_path / "store", ("artifacts", "data"), access=access)
    key = store.root / "artifacts" / "objects" / PROGRAM / "gcsfuse"
    key.parent.mkdir(parents=True)
    shutil.copy(gcsfuse, key)
    prepared(store.root / "data" / "prepared" / CONTENT)
    with store, MetadataServer() as metadata:
        yield MountingHost(tmp_path / "home with a space", store, metadata)


def test_the_program_is_the_one_that_previews_name(gcsfuse: Path) -> None:
    assert hashlib.sha256(gcsfuse.read_bytes()).hexdigest() == PROGRAM


def test_text_is_read_where_it_lies_and_a_mount_that_went_away_is_named_and_comes_again(
    host: MountingHost, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    shard = host.at / CONTENT / SHARD
    with host.service() as service:
        wait_for_mount(host.data, told.append)
        files = list(host.stored.glob("*"))
        size = sum(path.stat().st_size for path in files if path.name != MANIFEST)
        assert capsys.readouterr().out == (
            f"slipway: the data is read through a mount of gs://data/prepared/{CONTENT}: "
            f"3 files of {size / 1e6:,.1f} MB, of which nothing is copied\n"
        )
        assert told == [f"waits for the mount of gs://data/prepared/{CONTENT}"]
        assert sorted(path.name for path in (host.at / CONTENT).iterdir()) == sorted(path.name for path in files)
        with pytest.raises(OSError, match="Read-only file system"):
            (host.at / "strange").write_text("text")
        records = read_shard(shard)
        first = next(records)
        host.kill_gcsfuse()
        with pytest.raises(RuntimeError, match="not connected") as away:
            list(records)
        assert service.wait(timeout=60) != 0, "its service ends with it, so that systemd starts it again"
        with pytest.raises(BucketReadError, match=r"is not mounted at .*: "):
            wait_for_mount(host.data, print, patience_s=0)
    with host.service():
        wait_for_mount(host.data, print)
        assert next(read_shard(shard)) == first
        assert list(read_shard(shard)) == list(read_shard(host.stored / SHARD))
    plan = Plan(0, 1, "h:1", 1, 1, 1, 1, "/c", "/s", "/m", 30, 600, 60, 0, 0.0, host.data.directory, {})
    assert of_mount(str(away.value), plan) is None, "a disk that is broken is another matter"
    ending = of_mount(str(away.value), dataclasses.replace(plan, data_mounted_from=host.data.mounted_from))
    assert ending and ending.cause is Cause.OUTSIDE, "worth another start, however often"
    assert ending.reason.startswith(
        f"the mount of gs://data/prepared/{CONTENT} went away, so the training data cannot be read: pread() failed: "
        f"Transport endpoint is not connected; reading {shard}; at byte "
    )
    assert ending.reason.endswith("; the next start waits until it is mounted again")


def test_text_that_is_not_what_its_manifest_says_is_refused_until_it_is_pushed_again(host: MountingHost) -> None:
    shard = host.stored / SHARD
    whole = shard.read_bytes()
    shard.write_bytes(whole[:1000])
    with host.service():
        with pytest.raises(BucketReadError) as short:
            wait_for_mount(host.data, print)
        assert str(short.value) == (
            f"gs://data/prepared/{CONTENT} cannot be trained on as this host has it mounted: "
            f"{host.at}/{CONTENT}/{SHARD} is missing or has not {len(whole):,} bytes; run `pulumi up` again"
        )
    other = json.loads((host.stored / MANIFEST).read_text()) | {"content": "0" * 16}
    (host.stored / MANIFEST).write_text(json.dumps(other))
    with host.service(), pytest.raises(BucketReadError, match=f"holds other data .*expected is {CONTENT}"):
        wait_for_mount(host.data, print)


def test_why_there_is_no_mount_is_said_by_the_host_that_trains(host: MountingHost) -> None:
    program = host.store.root / "artifacts" / "objects" / PROGRAM / "gcsfuse"
    right = program.read_bytes()
    program.write_bytes(b"#!/bin/sh\ntouch run-by-root\n")
    assert "gcsfuse of gs://artifacts is not the one that the startup script names; refused" in host.refused()
    program.unlink()
    assert "gcsfuse cannot be fetched from gs://artifacts: curl: (22) The requested URL" in host.refused()
    program.write_bytes(right)
    host.store.access = BucketAccess({TOKEN: EMAIL}, {"artifacts": {EMAIL: READER}})
    said = host.refused()
    assert (
        "gs://data answers 403: vm@a-project.iam.gserviceaccount.com does not have storage.objects.list access" in said
    )
    assert said.endswith("; this host's account needs roles/storage.objectViewer there, which a foundation gives it")


def test_a_host_without_fuse_is_refused_by_name(tmp_path: Path) -> None:
    reason = "this host has no /dev/fuse, without which no bucket can be mounted; write data_on_hosts: copy"
    (tmp_path / "data-mount.says").write_text(f"{reason}\n")
    data = DataSpec(str(tmp_path / "data-mount" / CONTENT), CONTENT, 1, "gs://data/prepared")
    with pytest.raises(DataError, match=f"gs://data/prepared is not mounted: {reason}"):
        wait_for_mount(data, print, fuse=tmp_path / "fuse")
