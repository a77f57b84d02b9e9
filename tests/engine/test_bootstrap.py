"""bootstrap.sh with the real uv, from a store directory and from a bucket, under paths with spaces."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.layout import bundle_key
from infra.emulators.bucket_access import BucketAccess
from infra.emulators.metadata_server import EMAIL, MetadataServer
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.host_roles import BUCKET_ROLES
from infra.host_software.bundle import MANIFEST, Bundle
from infra.paths import ROOT, UV
from tests.emulators.s3_server import POD, S3Server, policy
from tests.engine.small_store import WHEEL, SmallStore, wheel
from training.host_status import Phase, read_status

SECRET = "ya29.only-for-the-bucket"
SCRIPT = ROOT / "training" / "bootstrap.sh"


@pytest.fixture
def store(tmp_path: Path) -> SmallStore:
    return SmallStore(tmp_path / "a store", tmp_path / "made from")


class BootedMachine:
    """A host of its own: where it installs, and what it is told."""

    def __init__(self, place: Path, artifacts: str | Path) -> None:
        self.root, self.host = place / "installed here", place / "host 0"
        self.environment = {key: os.environ[key] for key in ("PATH", "HOME", "PYENV_ROOT") if key in os.environ}
        self.environment |= {
            "SLIPWAY_ARTIFACTS": str(artifacts),
            "SLIPWAY_ROOT": str(self.root),
            "SLIPWAY_HOST_DIR": str(self.host),
        }

    def bootstrap(self, bundle: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | {"SLIPWAY_BUNDLE": bundle, "SLIPWAY_BOOTSTRAP_ONLY": "1"} | more
        return subprocess.run(["bash", SCRIPT], env=environment, capture_output=True, text=True, timeout=900)

    def refusal(self, bundle: str, code: int = 1, **more: str) -> str:
        """The reason in the status of a bootstrap that must fail."""
        done = self.bootstrap(bundle, **more)
        assert done.returncode == code, done.stderr
        status = read_status(self.host)
        assert status is not None and (status.phase, status.exit_code) == (Phase.FAILED, code)
        assert status.reason and f"bootstrap: {status.reason[:40]}" in done.stderr
        return status.reason


@pytest.fixture
def machine(tmp_path: Path, store: SmallStore) -> BootedMachine:
    return BootedMachine(tmp_path, store.directory)


def python_of(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


def test_what_mounts_a_bucket_is_left_to_root_which_checks_it_itself(store: SmallStore, machine: BootedMachine) -> None:
    """Nobody vouches for it in the bundle, and whoever trains never fetches it."""
    program = store.work / "gcsfuse"
    program.write_text("a program")
    wheelhouse = store.wheelhouse()
    store.vouched = dict(store.objects)
    store.add(program)
    with_program = store.wheelhouse()
    assert with_program != wheelhouse
    store.object("gcsfuse").unlink()
    python_of(machine.bootstrap(store.bundle(with_program).hash))


def test_second_time_nothing_is_fetched_or_made(store: SmallStore, machine: BootedMachine) -> None:
    bundle = store.bundle(store.wheelhouse())
    python = python_of(machine.bootstrap(bundle.hash))
    assert python.is_relative_to(machine.root)
    before = {path: path.lstat().st_mtime_ns for path in machine.root.rglob("*")}
    shutil.rmtree(store.directory)
    assert python_of(machine.bootstrap(bundle.hash)) == python
    assert {path: path.lstat().st_mtime_ns for path in machine.root.rglob("*")} == before


@pytest.mark.parametrize(("cores", "compiled"), [("15", 0), ("16", 1)])
def test_where_cores_are_many_the_first_start_has_compiled_modules(
    store: SmallStore, machine: BootedMachine, cores: str, compiled: int
) -> None:
    bundle = store.bundle(store.wheelhouse())
    python = python_of(machine.bootstrap(bundle.hash, OMP_NUM_THREADS=cores))  # what nproc says then
    assert len(list(python.parents[1].rglob("small/__pycache__/*.pyc"))) == compiled


def test_it_becomes_launch_in_the_bundle(store: SmallStore, machine: BootedMachine) -> None:
    bundle = store.bundle(store.wheelhouse(), run_spec="steps: 1\n")
    done = machine.bootstrap(bundle.hash, SLIPWAY_BOOTSTRAP_ONLY="")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split(f" {machine.root}/", 1)
    assert words[0] == f"launched {bundle.hash}"
    assert f"run_spec.yaml --host-dir {machine.host} --cache-dir {machine.host}/cache" in words[1]


def test_hosts_of_one_machine_share_an_environment(store: SmallStore, machine: BootedMachine, tmp_path: Path) -> None:
    """Two at once, from nothing: one installs, the other waits for it."""
    bundle = store.bundle(store.wheelhouse())
    environment = machine.environment | {"SLIPWAY_BUNDLE": bundle.hash, "SLIPWAY_BOOTSTRAP_ONLY": "1"}
    running = [
        subprocess.Popen(
            ["bash", SCRIPT],
            env=environment | {"SLIPWAY_HOST_DIR": str(tmp_path / f"host {i}")},
            stdout=subprocess.PIPE,
        )
        for i in range(2)
    ]
    outputs = {process.communicate(timeout=900)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(outputs) == 1
    assert len(list((machine.root / "env").iterdir())) == 1


def test_environment_that_a_kill_cut_short_is_made_again(store: SmallStore, machine: BootedMachine) -> None:
    bundle = store.bundle(store.wheelhouse())
    python = python_of(machine.bootstrap(bundle.hash))
    stamp = python.parents[1] / ".complete"
    stamp.unlink()
    python.unlink()
    assert python_of(machine.bootstrap(bundle.hash)) == python
    assert stamp.exists() and python.exists()


def test_two_bundles_stand_side_by_side_and_the_switch_is_one_rename(store: SmallStore, machine: BootedMachine) -> None:
    wheelhouse = store.wheelhouse()
    old, new = store.bundle(wheelhouse, "steps: 1\n"), store.bundle(wheelhouse, "steps: 2\n")
    for bundle in (old, new, old):
        python_of(machine.bootstrap(bundle.hash))
        assert (machine.host / "bundle").resolve().name == bundle.hash
        assert (machine.host / "bundle" / "run_spec.yaml").read_bytes() == bundle.files["run_spec.yaml"]
    assert {path.name for path in (machine.root / "bundles").iterdir()} == {old.hash, new.hash}
    assert len(list((machine.root / "env").iterdir())) == 1


@pytest.mark.parametrize("harm", ["corrupt", "missing"])
def test_bad_wheel_is_named_and_the_environment_before_it_stays(
    store: SmallStore, machine: BootedMachine, harm: str
) -> None:
    old = store.bundle(store.wheelhouse())
    python = python_of(machine.bootstrap(old.hash))
    new = store.bundle(store.wheelhouse(content="version = 2\n"))
    broken = store.object(WHEEL)
    if harm == "corrupt":
        broken.write_bytes(broken.read_bytes()[:-10])
    else:
        broken.unlink()
    assert WHEEL in machine.refusal(new.hash)
    assert subprocess.run([python, "-c", "import small"]).returncode == 0
    assert python_of(machine.bootstrap(old.hash)) == python
    assert (machine.host / "bundle").resolve().name == old.hash


def _as_archive(store: SmallStore, bundle: Bundle, other: Bundle) -> None:
    store.archive(bundle).write_bytes(other.archive())


def test_a_wheel_that_the_bundle_does_not_vouch_for_is_never_fetched(store: SmallStore, machine: BootedMachine) -> None:
    """Whoever can write to the store's list of wheels cannot have them installed."""
    uv = hashlib.sha256(UV.resolve().read_bytes()).hexdigest()
    other = f"other-1.0+{uv}-py3-none-any.whl"  # a name that has in it what the bundle vouches for
    store.add(wheel(store.work / WHEEL), other)
    wheelhouse = store.wheelhouse()
    store.vouched = {"uv": uv}
    bundle = store.bundle(wheelhouse)
    for name in (other, WHEEL):
        store.object(name).unlink()
    assert machine.refusal(bundle.hash, code=2) == (
        f"wheelhouse {wheelhouse} has files that bundle {bundle.hash} does not vouch for: {other} {WHEEL}; refused"
    )


def test_bundle_of_another_hash_is_refused(store: SmallStore, machine: BootedMachine) -> None:
    wheelhouse = store.wheelhouse()
    wanted, other = store.bundle(wheelhouse, "steps: 1\n"), store.bundle(wheelhouse, "steps: 2\n")
    _as_archive(store, wanted, other)
    reason = machine.refusal(wanted.hash)
    assert reason == f"bundle.tar is bundle {other.hash}, not {wanted.hash}; refused"


def test_changed_file_in_a_bundle_is_named(store: SmallStore, machine: BootedMachine, tmp_path: Path) -> None:
    bundle = store.bundle(store.wheelhouse())
    inside = tmp_path / "inside"
    with tarfile.open(store.archive(bundle)) as archive:
        archive.extractall(inside, filter="data")
    (inside / "training" / "launch.py").write_text("import antigravity\n")
    _pack(inside, store.archive(bundle))
    assert machine.refusal(bundle.hash) == "corrupt or missing: training/launch.py"
    (inside / "training" / "launch.py").write_bytes(bundle.files["training/launch.py"])
    (inside / "training" / "more.py").touch()
    _pack(inside, store.archive(bundle))
    assert (
        machine.refusal(bundle.hash) == f"bundle {bundle.hash} holds files that its {MANIFEST} does not name; refused"
    )


def _pack(directory: Path, archive: Path) -> None:
    subprocess.run(["tar", "-cf" if archive.suffix == ".tar" else "-czf", archive, "-C", directory, "."], check=True)


def test_truncated_bundle_is_refused(store: SmallStore, machine: BootedMachine) -> None:
    bundle = store.bundle(store.wheelhouse())
    archive = store.archive(bundle)
    archive.write_bytes(archive.read_bytes()[:600])  # in the middle of its first file
    assert machine.refusal(bundle.hash).startswith(f"bundle {bundle.hash} cannot be unpacked: ")


def test_full_disk_names_the_file_and_leaves_what_stood(
    store: SmallStore, machine: BootedMachine, tmp_path: Path
) -> None:
    """A real one: a tmpfs of a few MiB in a mount namespace, as large as the first environment needs.

    The status lies on it too, as on a host's boot disk; when the host starts again there is no room at all.
    """
    old = store.bundle(store.wheelhouse())
    padding = "\n".join(f"x{i} = '{hashlib.sha256(str(i).encode()).hexdigest()}'" for i in range(200_000))
    new = store.bundle(store.wheelhouse(content=padding))
    uv_size = store.object("uv").stat().st_size >> 20
    disk = machine.root
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size={uv_size + 6}m none "$SLIPWAY_ROOT"
        export SLIPWAY_HOST_DIR=$SLIPWAY_ROOT/host
        SLIPWAY_BUNDLE={old.hash} bash '{SCRIPT}' >/dev/null
        ! SLIPWAY_BUNDLE={new.hash} bash '{SCRIPT}' || exit 1
        cat "$SLIPWAY_HOST_DIR/status.json"
        ! cat /dev/zero >"$SLIPWAY_ROOT/all the room" 2>/dev/null || exit 1
        ! SLIPWAY_BUNDLE={new.hash} bash '{SCRIPT}' 2>/dev/null || exit 1
        cat "$SLIPWAY_HOST_DIR/status.json"
        rm "$SLIPWAY_ROOT/all the room"
        python=$(SLIPWAY_BUNDLE={old.hash} bash '{SCRIPT}' | tail -n 1)
        "$python" -c 'import small; print("still there")'
    """
    environment = machine.environment | {"SLIPWAY_BOOTSTRAP_ONLY": "1"}
    command = ["unshare", "-rm", "bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    *statuses, last = done.stdout.splitlines()
    assert last == "still there"
    for status in map(json.loads, statuses):
        assert (status["phase"], status["exit_code"]) == ("failed", 1)
        assert "No space left on device" in status["reason"]
    assert [json.loads(status)["reason"].partition(" ")[0] for status in statuses] == ["uv", "No"]
    said = next(line for line in done.stderr.splitlines() if line.startswith("bootstrap: "))
    assert "No space left on device" in said and "small" in said


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"SLIPWAY_BUNDLE": "latest"}, "SLIPWAY_BUNDLE is 'latest'; give 16 hex digits"),
        ({"SLIPWAY_ROOT": ""}, "SLIPWAY_ROOT is not set"),
        ({"SLIPWAY_ARTIFACTS": ""}, "SLIPWAY_ARTIFACTS is not set"),
    ],
)
def test_what_is_not_given_is_in_the_status(machine: BootedMachine, wrong: dict[str, str], reason: str) -> None:
    bundle = {"SLIPWAY_BUNDLE": "0" * 16} | wrong
    machine.environment |= bundle
    assert machine.refusal(bundle["SLIPWAY_BUNDLE"], 2) == reason


def test_bundle_that_is_not_in_the_store_is_named(store: SmallStore, machine: BootedMachine) -> None:
    assert bundle_key("0" * 16) in machine.refusal("0" * 16)


def test_sigterm_while_it_waits_is_an_interruption_at_once(store: SmallStore, machine: BootedMachine) -> None:
    """Another host holds the lock, as it does while it installs."""
    bundle = store.bundle(store.wheelhouse())
    machine.root.mkdir()
    lock = machine.root / "bootstrap.lock"
    holder = subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo held; exec sleep 100"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    environment = machine.environment | {"SLIPWAY_BUNDLE": bundle.hash}
    waiting = subprocess.Popen(["bash", SCRIPT], env=environment, start_new_session=True)
    try:
        while "flock" not in _names(waiting.pid):
            assert waiting.poll() is None
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=900) == 75
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate()
    status = read_status(machine.host)
    assert status is not None and status.phase is Phase.INTERRUPTED
    assert "flock" not in _names(waiting.pid)


def _names(session: int) -> list[str]:
    listing = subprocess.run(["ps", "-o", "comm=", "-s", str(session)], capture_output=True, text=True)
    return listing.stdout.split()


class TestBucket:
    """The same from `gs://`, with curl, the metadata server's token and an object store that demands it."""

    @pytest.fixture
    def bucket(self, tmp_path: Path) -> SmallStore:
        return SmallStore(tmp_path / "buckets" / "bucket" / "some" / "prefix", tmp_path / "made from")

    @pytest.fixture
    def remote(self, tmp_path: Path) -> BootedMachine:
        return BootedMachine(tmp_path, "gs://bucket/some/prefix")

    def test_everything_comes_from_the_bucket(self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET) as metadata, self._objects(tmp_path, remote, metadata) as objects:
            python = python_of(remote.bootstrap(bundle.hash))
            assert subprocess.run([python, "-c", "import small"]).returncode == 0
            calls = len(objects.calls)
            python_of(remote.bootstrap(bundle.hash))
            assert len(objects.calls) == calls, "the second time nothing is asked"
        assert not [path for path in remote.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]

    def test_wheel_that_arrives_corrupt_is_named(
        self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine
    ) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET) as metadata, self._objects(tmp_path, remote, metadata) as objects:
            objects.fail(StoreFaultKind.CORRUPT, "GET", WHEEL, times=99)
            assert remote.refusal(bundle.hash) == f"corrupt or missing: {WHEEL}"

    def test_busy_bucket_is_asked_again(self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET) as metadata, self._objects(tmp_path, remote, metadata) as objects:
            objects.fail(StoreFaultKind.UNAVAILABLE, "GET", "bundle.tar")
            python_of(remote.bootstrap(bundle.hash))

    def test_role_that_is_taken_away_is_named(self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET) as metadata, self._objects(tmp_path, remote, metadata) as objects:
            assert objects.access
            objects.access.grants = {"bucket": {EMAIL: {"roles/storage.legacyBucketReader"}}}
            reason = remote.refusal(bundle.hash)
        assert reason == (
            "fetching from gs://bucket/some/prefix: 403 for bundle.tar; this host's account needs "
            "roles/storage.objectViewer there, which a foundation gives it"
        )

    def test_a_metadata_server_that_comes_late_is_waited_for(
        self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine
    ) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET) as metadata, self._objects(tmp_path, remote, metadata):
            metadata.instead[:] = [503]
            python_of(remote.bootstrap(bundle.hash))

    @pytest.mark.parametrize(
        ("token", "instead", "reason"),
        [
            ("", [], "the metadata server answers without a token for gs://bucket/some/prefix"),
            (SECRET, [404], "the metadata server gives no token for gs://bucket/some/prefix: curl: (22) "),
        ],
        ids=["half filled", "no account"],
    )
    def test_a_metadata_server_without_a_token_is_said(
        self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine, token: str, instead: list[int], reason: str
    ) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=token) as metadata, self._objects(tmp_path, remote, metadata):
            metadata.instead[:] = instead
            assert remote.refusal(bundle.hash).startswith(reason)

    def test_refused_token_is_one_sentence_without_the_token(
        self, tmp_path: Path, bucket: SmallStore, remote: BootedMachine
    ) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        with MetadataServer(token=SECRET[::-1]) as metadata, self._objects(tmp_path, remote, metadata):
            reason = remote.refusal(bundle.hash)
        assert reason.startswith("fetching from gs://bucket/some/prefix: ") and "401" in reason

    def test_no_metadata_server_is_said(self, bucket: SmallStore, remote: BootedMachine) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        remote.environment["GCE_METADATA_HOST"] = "127.0.0.1:1"
        reason = remote.refusal(bundle.hash)
        assert reason.startswith("the metadata server gives no token for gs://bucket/some/prefix: ")

    def _objects(self, tmp_path: Path, remote: BootedMachine, metadata: MetadataServer) -> ObjectStore:
        """With the role that a foundation grants on artifacts."""
        access = BucketAccess({SECRET: EMAIL}, {"bucket": {EMAIL: {BUCKET_ROLES["artifacts"]}}})
        objects = ObjectStore(tmp_path / "buckets", access=access)
        remote.environment |= {"GCE_METADATA_HOST": metadata.host, "SLIPWAY_STORAGE_ENDPOINT": objects.url}
        return objects


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_pod_account()
        yield server


class TestS3:
    """The same from `s3://`, by s3_objects.py, of a server that nobody here wrote."""

    @pytest.fixture
    def bucket(self, server: S3Server, tmp_path: Path) -> SmallStore:
        """Which a pod may read."""
        server.make_bucket(name := f"bucket-{len(list(server.buckets.iterdir()))}")
        server.client().put_bucket_policy(Bucket=name, Policy=policy(name, "s3:GetObject"))
        return SmallStore(server.buckets / name / "some" / "prefix", tmp_path / "made from")

    @pytest.fixture
    def pod(self, server: S3Server, bucket: SmallStore, tmp_path: Path) -> BootedMachine:
        pod = BootedMachine(tmp_path, f"s3://{bucket.directory.relative_to(server.buckets)}")
        pod.environment |= server.environment(POD)
        return pod

    def test_everything_comes_from_the_bucket(self, bucket: SmallStore, pod: BootedMachine) -> None:
        bundle = bucket.bundle(bucket.wheelhouse())
        python = python_of(pod.bootstrap(bundle.hash))
        assert subprocess.run([python, "-c", "import small"]).returncode == 0
        python_of(pod.bootstrap(bundle.hash, AWS_ENDPOINT_URL_S3="http://127.0.0.1:9"))
        assert not [path for path in pod.root.rglob("*") if path.is_file() and POD[1].encode() in path.read_bytes()]

    def test_what_a_pod_may_not_or_cannot_read_is_one_sentence(
        self, server: S3Server, bucket: SmallStore, pod: BootedMachine
    ) -> None:
        bundle, (name, _, _) = bucket.bundle(bucket.wheelhouse()), bucket.directory.relative_to(server.buckets).parts
        server.client().delete_bucket_policy(Bucket=name)
        denied = pod.refusal(bundle.hash)
        assert denied.startswith(
            f"fetching from s3://{name}/some/prefix: s3://{name}/some/prefix/bundles/{bundle.hash}"
        )
        assert f"this pod's account needs s3:GetObject on arn:aws:s3:::{name}/*, and s3:ListBucket" in denied
        assert "write `slipway:s3_region: eu-central-1`" in pod.refusal(bundle.hash, AWS_REGION="us-west-2")
        absent = pod.refusal(bundle.hash, SLIPWAY_ARTIFACTS="s3://no-such-bucket")
        assert absent.endswith(f"there is no bucket 'no-such-bucket' at {server.url}; fix the name, or create it")
        assert "this pod has no credentials of S3" in pod.refusal(bundle.hash, AWS_ACCESS_KEY_ID="")

    def test_an_image_without_python_is_said(self, bucket: SmallStore, pod: BootedMachine, tmp_path: Path) -> None:
        programs = tmp_path / "programs"
        programs.mkdir()
        for name in ("bash", "date", "mkdir", "realpath", "mv", "rm", "flock", "mktemp", "tr", "cat", "dirname"):
            (programs / name).symlink_to(str(shutil.which(name)))
        sentence = pod.refusal(bucket.bundle(bucket.wheelhouse()).hash, code=2, PATH=str(programs))
        assert sentence.startswith("python3 is missing in this image; it fetches s3://bucket-")
