"""Word of what a stack will use is left in its artifact store, or `up` ends before anything is made, with the fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts.opening import open_store
from infra.components import claimed_artifacts
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.preview.stack_plan import decide
from infra.stack_file.settings import SettingsError
from tests.unit.test_tpu_vm_settings import made

BUCKET = "slipway-artifacts-us-east5-my-project"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "buckets", (BUCKET,)) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


def claim(**keys: Any) -> None:
    settings = made(**keys)
    claimed_artifacts.claim(settings, decide(settings).software)


def refused(**keys: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        claim(**keys)
    return str(caught.value)


def test_the_word_says_who_uses_what(server: ObjectStore) -> None:
    claim()
    software = decide(made()).software
    left = [f"uses/me-example-com/v6e-32/{software.wheelhouse.id}-{software.bundle}"]
    assert list(open_store(f"gs://{BUCKET}").keys()) == left


def test_without_a_foundation_it_says_how_to_make_one(server: ObjectStore) -> None:
    (server.root / BUCKET).rmdir()
    said = refused()
    assert said.startswith(f"there is no foundation in us-east5 yet: no bucket gs://{BUCKET}; ")
    assert said.endswith("pulumi up --stack foundation.us-east5")


def test_a_bucket_that_the_stack_names_is_no_matter_of_a_foundation(server: ObjectStore) -> None:
    said = refused(artifacts="gs://ours/wheels")
    assert "there is no bucket 'ours' that this account can see; fix the name" in said
    assert "foundation in" not in said


def test_a_bucket_that_refuses_is_not_taken_for_one_that_is_not_there(server: ObjectStore) -> None:
    server.fail(StoreFaultKind.DENIED, times=100)
    said = refused()
    assert "; have it granted (roles/storage.objectUser on the bucket), or run `gcloud auth" in said
    assert "foundation" not in said
