"""Prepared text from an emulated bucket to a host's disk: whole and right, or named with its file and byte."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.emulators.metadata_server import MetadataServer
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from tests.emulators.s3_server import POD, S3Server
from tests.training.cluster import Cluster
from training.bucket_reader import BucketReader, BucketReadError
from training.data.host_copy import Copied, Watch, copy_from_bucket, forget_damaged, on_this_host
from training.data.identity import MANIFEST, DataError, FileEntry, Manifest, Split, TokenizerEntry, content_of
from training.data.prepared import damaged, read_prepared
from training.data.shards import write_shard
from training.exit_codes import ExitCode
from training.host_status import Phase
from training.run_spec import DataSpec, MaxTextValue, RunSpec

CONTENT = content_of({}, {})
SOURCE = f"gs://bucket/prepared/{CONTENT}"
SHARD = "train-00001-of-00003.array_record"


class Bucket:
    """With prepared text, and a host that may read it."""

    def __init__(self, store: ObjectStore, metadata: MetadataServer, disk: Path) -> None:
        self.store, self.metadata, self.disk = store, metadata, disk

    @property
    def files(self) -> Path:
        return self.store.root / "bucket" / "prepared" / CONTENT

    @property
    def here(self) -> Path:
        return self.disk / "data" / CONTENT

    @property
    def environ(self) -> dict[str, str]:
        return {"SLIPWAY_STORAGE_ENDPOINT": self.store.url, "GCE_METADATA_HOST": self.metadata.host}

    def copy(self, patience_s: float = 60.0, watch: Watch = lambda progress: None) -> Copied:
        return copy_from_bucket(SOURCE, CONTENT, self.here, BucketReader(self.environ, patience_s), watch)

    def refused(self, patience_s: float = 60.0, watch: Watch = lambda progress: None) -> str:
        with pytest.raises((BucketReadError, DataError)) as caught:
            self.copy(patience_s, watch)
        return str(caught.value)

    def asked_for(self, name: str) -> int:
        return sum(call.path.endswith(name) for call in self.store.calls)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real shards, of which each record is read as it was written."""
    directory = tmp_path_factory.mktemp("prepared")
    letters = random.Random(1)
    shards = [
        write_shard(directory / name, (bytes(letters.choices(b"abcdefgh ", k=5000)) for _ in range(200)))
        for name in (*(f"train-{number:05d}-of-00003.array_record" for number in range(3)), "heldout-0.array_record")
    ]
    model = b"pieces" * 100
    (directory / "tokenizer.model").write_bytes(model)
    tokenizer = FileEntry("tokenizer.model", hashlib.sha256(model).hexdigest(), len(model))
    train, heldout = (
        Split(1, 1, 1, 1, 1, 1.0, tuple(shard.file for shard in each)) for each in (shards[:3], shards[3:])
    )
    manifest = Manifest(1, CONTENT, 0, {}, (), train, heldout, TokenizerEntry(tokenizer, 4096, 0, 1, 2, 3))
    (directory / MANIFEST).write_text(manifest.to_json())
    return directory


@pytest.fixture
def bucket(prepared: Path, tmp_path: Path) -> Iterator[Bucket]:
    with MetadataServer() as metadata, ObjectStore(tmp_path / "buckets", token=metadata.token) as store:
        bucket = Bucket(store, metadata, tmp_path / "host")
        shutil.copytree(prepared, bucket.files)
        yield bucket


def test_text_of_a_bucket_is_on_the_hosts_disk_and_fetched_once(bucket: Bucket, prepared: Path) -> None:
    copied = bucket.copy()
    total = sum(file.bytes for file in read_prepared(prepared, CONTENT).files)
    assert (copied.files, copied.bytes, copied.present_bytes) == (5, total, 0)
    there = {path.name: path.read_bytes() for path in bucket.here.iterdir()}
    assert there == {path.name: path.read_bytes() for path in prepared.iterdir()} | {"copied-from": SOURCE.encode()}
    bucket.store.calls.clear()
    assert (bucket.copy().bytes, bucket.store.calls) == (0, [])


def test_a_run_reads_the_copy(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    spec = RunSpec("s", "run", "cpu", 1, 1, 1, 1, "gs://runs", DataSpec(SOURCE, CONTENT, 1), {})
    own = on_this_host(spec, bucket.disk / "data", BucketReader(bucket.environ), lambda progress: None)
    assert own == dataclasses.replace(spec, data=DataSpec(str(bucket.here), CONTENT, 1))
    said = capsys.readouterr().out
    assert f"copied from {SOURCE} to {bucket.here}" in said and "on this host's disk: 5 files of 2.1 MB in " in said
    on_a_disk = dataclasses.replace(spec, data=DataSpec("/prepared", CONTENT, 1))
    assert on_this_host(on_a_disk, bucket.disk, BucketReader({}), lambda progress: None) is on_a_disk


@pytest.mark.parametrize("kind", [StoreFaultKind.UNAVAILABLE, StoreFaultKind.CUT_BEFORE, StoreFaultKind.CUT_AFTER])
def test_what_passes_is_asked_for_again_where_it_broke_off(bucket: Bucket, kind: StoreFaultKind) -> None:
    bucket.store.fail(kind, path=SHARD)
    assert bucket.copy().files == 5
    read_prepared(bucket.here, CONTENT)
    assert bucket.asked_for(SHARD) == 2


def test_a_copy_that_was_killed_goes_on_in_the_middle_of_a_file(bucket: Bucket, prepared: Path) -> None:
    whole = (prepared / SHARD).read_bytes()
    bucket.here.mkdir(parents=True)
    (bucket.here / f"{SHARD}.partial").write_bytes(whole[:300_000])
    shutil.copy(prepared / "tokenizer.model", bucket.here)
    assert bucket.copy().files == 4
    assert bucket.asked_for("tokenizer.model") == 0
    assert (bucket.here / SHARD).read_bytes() == whole
    assert bucket.asked_for(SHARD) == 1, "and not once more for a wrong sum"


def test_what_is_left_of_another_object_is_fetched_anew(bucket: Bucket) -> None:
    bucket.here.mkdir(parents=True)
    (bucket.here / f"{SHARD}.partial").write_bytes(b"of another release" * 1000)
    bucket.copy()
    read_prepared(bucket.here, CONTENT)


def test_a_bit_that_turned_on_the_way_is_fetched_anew(bucket: Bucket) -> None:
    bucket.store.fail(StoreFaultKind.CORRUPT, path=SHARD)
    bucket.copy()
    assert bucket.asked_for(SHARD) == 2


def _lost(bucket: Bucket) -> None:
    (bucket.files / SHARD).unlink()


def _cut_short(bucket: Bucket) -> None:
    (bucket.files / SHARD).write_bytes((bucket.files / SHARD).read_bytes()[:1000])


def _damaged(bucket: Bucket) -> None:
    content = bytearray((bucket.files / SHARD).read_bytes())
    content[len(content) // 2] ^= 1
    (bucket.files / SHARD).write_bytes(content)


def _of_another_size_from_here(bucket: Bucket) -> None:
    """Another object has its name once a part of it is on the disk."""
    whole = (bucket.files / SHARD).read_bytes()
    bucket.here.mkdir(parents=True)
    (bucket.here / f"{SHARD}.partial").write_bytes(whole[:300_000])
    (bucket.files / SHARD).write_bytes(whole[:200_000])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_lost, "is lost: at byte 0 the bucket answers 404: No such object: bucket/"),
        (_cut_short, "has 1,000 bytes, but its manifest says 524,288: it differs from byte 1,000 on at the latest"),
        (_damaged, "Corrupted Riegeli/records file: block header hash mismatch"),
        (_damaged, "at byte 262168); it was replaced or damaged: delete it there and run `pulumi up` again"),
        (_of_another_size_from_here, "is cut short: there is nothing at byte 300,000"),
    ],
)
def test_a_shard_that_is_not_the_manifests_is_named_with_its_byte(
    bucket: Bucket, change: Callable[[Bucket], None], said: str
) -> None:
    change(bucket)
    sentence = bucket.refused()
    assert sentence.startswith(f"{SOURCE}/{SHARD} ") and said in sentence
    assert not (bucket.here / MANIFEST).exists() and not (bucket.here / SHARD).exists()


def test_a_shard_that_another_host_read_before_it_changed_is_refused_by_the_next(bucket: Bucket) -> None:
    bucket.copy()
    _damaged(bucket)
    other = Bucket(bucket.store, bucket.metadata, bucket.disk.with_name("other"))
    assert f"{SHARD} is not what its manifest says: its 524,288 bytes have the SHA-256 " in other.refused()


def test_an_object_that_is_replaced_while_it_is_read_is_named(bucket: Bucket) -> None:
    bucket.store.fail(StoreFaultKind.CUT_AFTER, path=SHARD)
    second = bucket.store.fail(StoreFaultKind.HOLD, path=SHARD)

    def replace_once_asked_again(progress: str) -> None:
        if second.held.is_set() and not second.release.is_set():
            copy = bucket.files / "copy"
            copy.write_bytes((bucket.files / SHARD).read_bytes())
            copy.replace(bucket.files / SHARD)
            second.release.set()

    sentence = bucket.refused(watch=replace_once_asked_again)
    assert "was replaced while it was read: it is another object at byte 262,144" in sentence


def test_a_bucket_that_does_not_answer_is_named_with_the_byte(bucket: Bucket) -> None:
    bucket.store.fail(StoreFaultKind.CUT_AFTER, path=SHARD)
    bucket.store.fail(StoreFaultKind.UNAVAILABLE, path=SHARD, times=10**9)
    sentence = bucket.refused(patience_s=1.0)
    assert f"{SHARD} cannot be read on from byte 262,144 of 524,288: the bucket answers 503: Backend" in sentence
    assert (bucket.here / f"{SHARD}.partial").stat().st_size == 262_144, "the next start goes on there"


def test_a_host_that_may_not_read_says_which_role_it_lacks(bucket: Bucket) -> None:
    bucket.store.fail(StoreFaultKind.DENIED, path=SHARD)
    assert "needs roles/storage.objectViewer there, which a foundation gives it" in bucket.refused()


def test_a_token_that_ends_meanwhile_is_asked_for_again(bucket: Bucket) -> None:
    reader = BucketReader(bucket.environ)
    assert reader.read(f"{SOURCE}/tokenizer.model")
    bucket.metadata.token = "another"
    bucket.store.tokens = ("another",)
    assert reader.read(f"{SOURCE}/tokenizer.model")


@pytest.fixture
def s3_text(prepared: Path, tmp_path: Path) -> Iterator[tuple[S3Server, Path]]:
    """In a bucket of a server that nobody here wrote."""
    with S3Server(tmp_path / "s3") as server:
        files = server.buckets / "bucket" / "prepared" / CONTENT
        shutil.copytree(prepared, files)
        server.make_pod_account()
        yield server, files


def test_text_of_an_s3_bucket_is_read_on_where_a_start_was_cut_short(
    s3_text: tuple[S3Server, Path], tmp_path: Path
) -> None:
    server, files = s3_text
    here, source = tmp_path / "data" / CONTENT, SOURCE.replace("gs://", "s3://")
    shard = (files / SHARD).read_bytes()
    here.mkdir(parents=True)
    (here / f"{SHARD}.partial").write_bytes(shard[:100_000])
    spec = RunSpec("s", "run", "gpu", 1, 1, 1, 1, "/mnt/runs", DataSpec(source, CONTENT, 1), {})
    own = on_this_host(spec, tmp_path / "data", BucketReader(server.environment()), lambda progress: None)
    assert own.data == DataSpec(str(here), CONTENT, 1)
    assert len(read_prepared(here, CONTENT).files) == 5
    assert (here / SHARD).read_bytes() == shard

    def refused(reader: BucketReader) -> str:
        (here / SHARD).unlink(missing_ok=True)
        (here / MANIFEST).unlink(missing_ok=True)
        with pytest.raises(BucketReadError) as caught:
            copy_from_bucket(source, CONTENT, here, reader, lambda progress: None)
        return str(caught.value)

    assert "this pod's account needs s3:GetObject on arn:aws:s3:::bucket/*" in refused(
        BucketReader(server.environment(POD))
    )
    assert "write `slipway:s3_region: eu-central-1`" in refused(BucketReader(server.environment(region="us-west-2")))
    assert "this pod has no credentials of S3" in refused(BucketReader({"AWS_ENDPOINT_URL_S3": server.url}))
    (files / SHARD).unlink()
    assert f"{SHARD} is not there (404 NoSuchKey: " in refused(BucketReader(server.environment()))


def _too_large(bucket: Bucket) -> None:
    document = json.loads((bucket.files / MANIFEST).read_text())
    document["train"]["files"][1]["bytes"] = 10**18
    (bucket.files / MANIFEST).write_text(json.dumps(document))


def _as_it_is(bucket: Bucket) -> None:
    """Enough for no run."""


def test_a_disk_that_is_too_small_is_said_before_anything_is_copied(bucket: Bucket) -> None:
    _too_large(bucket)
    sentence = bucket.refused()
    assert sentence.startswith("the data does not fit on this host: 1,000,000,000,001.6 MB are to be copied to ")
    assert f" to {bucket.here}, whose disk has " in sentence and sentence.endswith("larger disk, or less data")
    assert bucket.asked_for(".array_record") == 0
    assert [path.name for path in bucket.here.iterdir()] == []


def test_a_bit_that_turned_on_the_disk_is_fetched_by_the_next_start(bucket: Bucket, prepared: Path) -> None:
    """Of what cannot be read in a training: files of a copy go, those of a directory of one's own stay."""
    bucket.copy()
    assert damaged(bucket.here, 60) == []
    content = bytearray((bucket.here / SHARD).read_bytes())
    content[1000] ^= 1
    (bucket.here / SHARD).write_bytes(content)
    names = damaged(bucket.here, 60)
    assert (names, forget_damaged(bucket.here, names)) == ([SHARD], SOURCE)
    assert bucket.copy().files == 1
    assert damaged(bucket.here, 60) == []
    assert forget_damaged(prepared, [SHARD]) == "" and (prepared / SHARD).exists()


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (_lost, ExitCode.FAILED, f"{SOURCE}/{SHARD} is lost: at byte 0 the bucket answers 404"),
        (_too_large, ExitCode.BAD_INPUT, "the data does not fit on this host: "),
        (_as_it_is, ExitCode.BAD_INPUT, "the run needs 512 of 1 training tokens: 512.00 epochs, and max_epochs is 1"),
    ],
)
def test_a_host_ends_with_what_its_text_lacks_and_what_can_be_mended_is_tried_again(
    bucket: Bucket, tmp_path: Path, change: Callable[[Bucket], None], code: ExitCode, said: str
) -> None:
    """By the exit code systemd knows whether to start it again."""
    change(bucket)
    maxtext: dict[str, MaxTextValue] = {"per_device_batch_size": 1, "max_target_length": 512, "vocab_size": 4096}
    spec = RunSpec("s", "run", "cpu", 1, 1, 1, 1, str(tmp_path / "out"), DataSpec(SOURCE, CONTENT, 1), maxtext)
    cluster = Cluster(tmp_path / "cluster", tmp_path / "cache", environ=bucket.environ)
    [host] = cluster.run(spec)
    assert (host.process.returncode, host.status.phase) == (code, Phase.FAILED), host.log
    assert str(host.status.reason).startswith(said)


@pytest.mark.parametrize("key", ["content", "options"])
def test_other_text_than_the_runs_is_refused_before_it_is_copied(bucket: Bucket, key: str) -> None:
    document = json.loads((bucket.files / MANIFEST).read_text())
    document[key] = {"content": "0" * 16, "options": {"seed": 1}}[key]
    (bucket.files / MANIFEST).write_text(json.dumps(document))
    assert bucket.refused().endswith(f": delete {SOURCE} and run `pulumi up` again")
    assert bucket.asked_for(".array_record") == 0


def test_text_of_another_run_makes_room(bucket: Bucket) -> None:
    for name in ("0123456789abcdef", "mine"):
        (bucket.disk / "data" / name).mkdir(parents=True)
    bucket.here.mkdir()
    (bucket.here / "train-00000-of-00009.array_record").write_text("of another release")
    bucket.copy()
    assert sorted(path.name for path in (bucket.disk / "data").iterdir()) == sorted([CONTENT, "mine"])
    read_prepared(bucket.here, CONTENT)
