"""Stores of both kinds; a bucket's server is real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.opening import open_store
from infra.artifacts.store import LocalStore, Store
from infra.emulators.object_store import ObjectStore


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "buckets", page_size=1) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


@pytest.fixture
def bucket(server: ObjectStore) -> Store:
    return open_store("gs://bucket", patience_s=30)


@pytest.fixture(params=["directory", "bucket", "bucket/with/a prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return open_store(tmp_path / "a store")
    request.getfixturevalue("server")
    return open_store(f"gs://{request.param}", patience_s=30)


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "source")
