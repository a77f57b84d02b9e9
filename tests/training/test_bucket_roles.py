"""What hosts say that lack a right on their bucket: each role, and each permission that a training needs, taken away.

One process with the clients of a host does what a start does in a bucket: MaxText's own check of the place, a look at
the checkpoints, a restore and a save by Orbax.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Set

import pytest

from infra.emulators import storage_roles
from infra.emulators.metadata_server import EMAIL
from tests.training.cluster import ROOT, plain_environment
from tests.training.emulated_bucket import OUTPUT, ROLES, EmulatedBucket
from training import bucket_clients
from training.checkpoints import checkpoint_directory

CHECKPOINTS = checkpoint_directory(OUTPUT, "run")
START = """
import sys
import fsspec, numpy, orbax.checkpoint as ocp
from etils import epath
from maxtext.utils import gcs_utils
from training.checkpoints import completed_steps
from training.endings import of_error

directory = epath.Path(sys.argv[1])

def start():
    gcs_utils.mkdir_and_check_permissions(directory)
    done = completed_steps(directory, remote=True)
    with ocp.CheckpointManager(directory) as manager:
        if done:
            manager.restore(done - 1, args=ocp.args.StandardRestore())
        manager.save(done, args=ocp.args.StandardSave({"weights": numpy.full(4, 1.0)}))
        manager.wait_until_finished()
    return f"saved {done}"

for line in sys.stdin:
    fsspec.filesystem("gs").invalidate_cache()  # a start is a new process, which remembers no listing
    try:
        said = start() if line == "start\\n" else completed_steps(directory, remote=True)
    except Exception as error:
        said = of_error(error, None).reason
    print("said", said, flush=True)
"""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBucket]:
    with EmulatedBucket(tmp_path_factory.mktemp("buckets"), hosts=1) as bucket:
        yield bucket


@pytest.fixture(scope="module")
def do(bucket: EmulatedBucket) -> Iterator[Callable[[str], str]]:
    """Does "start" once more, or "look", which tells the steps that are saved; returns what came of it."""
    environ = bucket.environ[0] | bucket_clients.environment(60) | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", START, CHECKPOINTS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=plain_environment() | environ, text=True, **pipes) as process:  # pyright: ignore[reportCallIssue, reportArgumentType]

        def do(what: str) -> str:
            assert process.stdin and process.stdout
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            return next(line for line in process.stdout if line.startswith("said "))[5:].rstrip("\n")

        assert do("start") == "saved 0", "with the roles that a foundation gives"
        yield do


@contextlib.contextmanager
def rights(bucket: EmulatedBucket, roles: Set[str] = ROLES, denied: str = "") -> Generator[None]:
    access = bucket.access[0]
    access.grants, access.denied = {"bucket": {EMAIL: roles}}, {denied}
    try:
        yield
    finally:
        access.grants, access.denied = {"bucket": {EMAIL: ROLES}}, set()


def refusal(permission: str, what: str, role: str) -> str:
    return (
        f"gs://bucket answers 403: {EMAIL} does not have {permission} access to the Google Cloud Storage {what}. "
        f"Permission '{permission}' denied on resource (or it may not exist); the hosts' account needs {role} there, "
        f"which a foundation gives it; the previous checkpoint stands"
    )


OBJECTS, BUCKET = "roles/storage.objectUser", "roles/storage.legacyBucketReader"


@pytest.mark.parametrize(
    ("permission", "what", "role"),
    [
        (storage_roles.GET_BUCKET, "bucket", BUCKET),
        (storage_roles.LIST, "bucket", OBJECTS),
        (storage_roles.GET, "object", OBJECTS),
        (storage_roles.CREATE, "object", OBJECTS),
        (storage_roles.DELETE, "object", OBJECTS),
    ],
)
def test_a_permission_that_is_taken_away_is_named_and_once_it_is_back_the_run_goes_on(
    bucket: EmulatedBucket, do: Callable[[str], str], permission: str, what: str, role: str
) -> None:
    saved = bucket.completed()
    with rights(bucket, denied=permission):
        assert do("start") == refusal(permission, what, role)
    assert do("start") == f"saved {saved}"


def test_checkpoints_that_may_not_be_listed_are_not_taken_for_none(
    bucket: EmulatedBucket, do: Callable[[str], str]
) -> None:
    """gcsfs says of a folder that it may not list that it is no folder, and the run would have begun anew."""
    with rights(bucket, denied=storage_roles.LIST):
        assert do("look") == refusal(storage_roles.LIST, "bucket", OBJECTS)
    assert do("look") == str(bucket.completed())


@pytest.mark.parametrize(
    ("kept", "permission", "what", "role"),
    [
        (OBJECTS, storage_roles.GET_BUCKET, "bucket", BUCKET),
        (BUCKET, storage_roles.CREATE, "object", OBJECTS),
        ("roles/storage.objectViewer", storage_roles.GET_BUCKET, "bucket", BUCKET),
    ],
)
def test_a_role_that_is_taken_away_is_named(
    bucket: EmulatedBucket, do: Callable[[str], str], kept: str, permission: str, what: str, role: str
) -> None:
    with rights(bucket, {kept}):
        assert do("start") == refusal(permission, what, role)
