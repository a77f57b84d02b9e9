"""Buckets of the stand-in for Google's plugin, and roles on them, are in the emulated Cloud Storage as they stand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.providers.resource import ResourceError
from infra.standins.gcp.emulated_buckets import EmulatedBuckets

ON_BUCKET, ON_PROJECT = "gcp:storage/bucketIAMMember:BucketIAMMember", "gcp:projects/iAMMember:IAMMember"
EMAIL = "hosts@p.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
READS, WRITES, SEES = (f"roles/storage.{role}" for role in ("objectViewer", "objectUser", "legacyBucketReader"))


def test_a_bucket_comes_and_goes_and_one_with_objects_stays(tmp_path: Path) -> None:
    with ObjectStore(tmp_path, ("there",)) as store:
        buckets = EmulatedBuckets(store.url)
        for name in ("there", "new"):
            buckets.make(name, "p", "US-EAST5")
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"there", "new"}
        (tmp_path / "there" / "object").write_text("content")
        with pytest.raises(
            ResourceError, match=r"^googleapi: Error 409: The bucket you tried to delete is not empty\.$"
        ):
            buckets.delete("there")
        for _ in range(2):
            buckets.delete("new")
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"there"}
    with pytest.raises(ResourceError, match=f"^STORAGE_EMULATOR_HOST is {store.url}, which does not answer: "):
        buckets.make("new", "p", "US-EAST5")


def test_a_role_comes_and_goes_beside_others(tmp_path: Path) -> None:
    with ObjectStore(tmp_path, ("bucket",)) as store:
        buckets = EmulatedBuckets(store.url)
        grants = [{"bucket": "bucket", "role": role, "member": MEMBER} for role in (READS, WRITES, SEES)]
        somebody = {"bucket": "bucket", "role": READS, "member": "serviceAccount:somebody@p.iam.gserviceaccount.com"}
        with ThreadPoolExecutor() as engine:
            list(engine.map(lambda grant: buckets.grant(ON_BUCKET, grant), [*grants, somebody]))
        assert store.policies.roles("bucket", EMAIL) == {READS, WRITES, SEES}
        assert all(buckets.has(ON_BUCKET, grant) for grant in grants)
        buckets.revoke(ON_BUCKET, grants[0])
        assert [buckets.has(ON_BUCKET, grant) for grant in (*grants, somebody)] == [False, True, True, True]

        logs = {"project": "p", "role": "roles/logging.logWriter", "member": MEMBER}
        buckets.grant(ON_PROJECT, logs)
        assert store.policies.roles_on_project("p", EMAIL) == {"roles/logging.logWriter"}
        buckets.revoke(ON_PROJECT, logs)
        assert not buckets.has(ON_PROJECT, logs)


def test_a_policy_that_somebody_else_changes_meanwhile_is_read_again(tmp_path: Path) -> None:
    with ObjectStore(tmp_path, ("bucket",)) as store, ThreadPoolExecutor() as engine:
        ours = {"bucket": "bucket", "role": READS, "member": MEMBER}
        late = store.fail(StoreFaultKind.HOLD, "PUT", "/iam")
        granted = engine.submit(EmulatedBuckets(store.url).grant, ON_BUCKET, ours)
        assert late.held.wait(timeout=900)
        EmulatedBuckets(store.url).grant(ON_BUCKET, ours | {"role": SEES})
        late.release.set()
        granted.result(timeout=900)
        assert store.policies.roles("bucket", EMAIL) == {READS, SEES}


def test_what_the_emulator_would_not_understand_is_refused_by_name_and_a_bucket_that_is_gone_has_no_roles(
    tmp_path: Path,
) -> None:
    with ObjectStore(tmp_path, ("bucket",)) as store:
        buckets = EmulatedBuckets(store.url)
        grant = {"bucket": "bucket", "role": READS, "member": MEMBER}
        for wrong, said in (
            ({"role": "roles/storage.objectReader"}, "Role roles/storage.objectReader is not supported"),
            ({"role": "projects/p/roles/ours"}, "Role projects/p/roles/ours is not supported"),
            ({"role": "roles/logging.logWriter"}, "Role roles/logging.logWriter is not supported"),
            ({"condition": {"expression": "true"}}, "The emulator does not evaluate conditions"),
        ):
            with pytest.raises(ResourceError, match=f"^googleapi: Error 400: {said}"):
                buckets.grant(ON_BUCKET, grant | wrong)
        assert store.policies.roles("bucket", EMAIL) == frozenset()
        buckets.grant(ON_BUCKET, grant)
        buckets.delete("bucket")
        buckets.revoke(ON_BUCKET, grant)
        assert not buckets.has(ON_BUCKET, grant)
        buckets.make("bucket", "p", "US-EAST5")
        assert store.policies.roles("bucket", EMAIL) == frozenset()
        with pytest.raises(ResourceError, match=r"^googleapi: Error 404: The specified bucket does not exist\."):
            buckets.grant(ON_BUCKET, grant | {"bucket": "elsewhere"})


def test_without_an_emulator_nothing_is_asked() -> None:
    buckets, grant = EmulatedBuckets(""), {"bucket": "bucket", "role": READS, "member": MEMBER}
    buckets.make("anything", "p", "US-EAST5")
    buckets.delete("anything")
    buckets.grant(ON_BUCKET, grant)
    buckets.revoke(ON_BUCKET, grant)
    assert buckets.has(ON_BUCKET, grant)
