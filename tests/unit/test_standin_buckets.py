"""A bucket that the stand-in for Google's plugin makes is one of the emulated Cloud Storage while it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.emulators.object_store import ObjectStore
from infra.providers.resource import ResourceError
from infra.standins.gcp.emulated_buckets import EmulatedBuckets


def test_a_bucket_comes_and_goes_and_one_with_objects_stays(tmp_path: Path) -> None:
    with ObjectStore(tmp_path, ("there",)) as store:
        buckets = EmulatedBuckets(store.url)
        for name in ("there", "new"):
            buckets.make(name)
        assert {path.name for path in tmp_path.iterdir()} == {"there", "new"}
        (tmp_path / "there" / "object").write_text("content")
        with pytest.raises(
            ResourceError, match=r"^googleapi: Error 409: The bucket you tried to delete is not empty\.$"
        ):
            buckets.delete("there")
        for _ in range(2):
            buckets.delete("new")
        assert {path.name for path in tmp_path.iterdir()} == {"there"}
    with pytest.raises(ResourceError, match=f"^STORAGE_EMULATOR_HOST is {store.url}, which does not answer: "):
        buckets.make("new")


def test_without_an_emulator_nothing_is_asked() -> None:
    EmulatedBuckets("").make("anything")
    EmulatedBuckets("").delete("anything")
