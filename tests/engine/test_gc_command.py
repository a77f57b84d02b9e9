"""`slipway gc` with states that the real engine has made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from infra.artifacts import uses
from infra.artifacts import wanted as told
from infra.artifacts.opening import open_store
from infra.artifacts.uses import Use
from infra.artifacts.wanted import wanted_key
from infra.emulated import TPU
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, TpuApi
from infra.host_software.bundle import Bundle
from infra.vm_hosts.startup_script import HostScript, startup_script
from tests.emulators.instant import INSTANT
from tests.engine.clone import Clone, said
from tests.unit.tpu_stack import Stack, wanted

# In place of infra/__main__.py: the artifacts of a stack. They are in the store, so nothing is built.
PROGRAM = """
import os
from pulumi import ResourceOptions
from infra.components.resources import StoredBundle, StoredWheelhouse
from infra.providers.inputs import StoredBundleInputs, StoredWheelhouseInputs
store = os.environ["STORE"]
wheelhouse = StoredWheelhouseInputs(store=store, wheelhouse="1" * 16, arguments=[])
StoredWheelhouse("wheelhouse", wheelhouse, ResourceOptions())
bundle = StoredBundleInputs(store=store, bundle="2" * 16, run_spec="", wheelhouse="1" * 16, lock="", model_file="")
StoredBundle("bundle", bundle, ResourceOptions())
"""
SHA = {name: f"{number:064x}" for number, name in enumerate(["used", "recorded", "orphan", "unused"])}


def fill(root: Path) -> None:
    """A store with three wheelhouses, a bundle of each use, and an object that nothing lists; all of it old."""
    texts = {f"objects/{digest}/{name}.whl": name for name, digest in SHA.items()}
    for identifier, name in (("1" * 16, "used"), ("3" * 16, "recorded"), ("5" * 16, "unused")):
        texts[f"wheelhouses/{identifier}/SHA256SUMS"] = f"{SHA[name]}  {name}.whl\n"
        texts[f"wheelhouses/{identifier}/requirements.txt"] = ""
    for bundle in "2", "4", "6":
        texts[f"bundles/{bundle * 16}/bundle.tar"] = ""
    record = {"identity": {"platform": "cpu"}, "starts": [{"wheelhouse": "3" * 16, "bundle": "4" * 16}]}
    texts["runs/one/record.json"] = json.dumps(record)
    for key, text in texts.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))


GONE = [
    f"objects/{SHA['orphan']}/orphan.whl",
    f"objects/{SHA['unused']}/unused.whl",
    f"wheelhouses/{'5' * 16}/SHA256SUMS",
    f"wheelhouses/{'5' * 16}/requirements.txt",
    f"bundles/{'6' * 16}/bundle.tar",
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "buckets" / "bucket"
    fill(store)
    return store


@pytest.fixture
def clone(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("STORE", str(store))
    clone = Clone.make(tmp_path / "a clone")
    clone.stack("local.used")
    (clone.directory / "infra" / "__main__.py").write_text(PROGRAM)
    up = clone.pulumi("up", "local.used", "--non-interactive")
    assert up.returncode == 0, said(up)
    return clone


def test_life_of_a_store(clone: Clone, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(open_store(store).keys())
    with ObjectStore(store.parent, page_size=3) as server, TpuApi(Cloud(INSTANT)) as api:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv(TPU, api.url)
        unasked = clone.run("slipway", "gc", "gs://bucket")
        assert (
            "error: no stack of stacks/ uses gs://bucket, so it is not known in which project hosts run that do; give "
            "--project PROJECT" in unasked.stderr
        )
        dry = clone.run("slipway", "gc", "gs://bucket", "--project", "p")
        assert dry.returncode == 0, said(dry)
        assert "nobody could be asked" not in dry.stdout
        assert "1 stacks and 1 run records name 2 wheelhouses and 2 bundles" in dry.stdout
        assert all(key in dry.stdout for key in GONE)
        assert "used.whl" in dry.stdout
        assert "5 objects, " in dry.stdout
        assert "would go; delete them with: slipway gc gs://bucket --project p --delete" in dry.stdout
        assert list(open_store(store).keys()) == before

        deleted = clone.run("slipway", "gc", "gs://bucket", "--project", "p", "--delete")
        assert deleted.returncode == 0, said(deleted)
        assert "deleted 5 objects" in deleted.stdout
        assert list(open_store(store).keys()) == sorted(set(before) - set(GONE))
        assert "nothing to delete" in clone.run("slipway", "gc", "gs://bucket", "--project", "p").stdout

    # the same store as a directory, once its stack is gone
    assert clone.pulumi("destroy", "local.used", "--non-interactive").returncode == 0
    last = clone.run("slipway", "gc", str(store), "--delete")
    assert "1 stacks and 1 run records name 1 wheelhouses and 1 bundles" in last.stdout, said(last)
    assert "nobody could be asked what runs with it" in last.stdout
    assert list(open_store(store).keys("wheelhouses/")) == [
        f"wheelhouses/{'3' * 16}/SHA256SUMS",
        f"wheelhouses/{'3' * 16}/requirements.txt",
    ]


def test_what_a_colleague_uses_is_kept_until_it_is_forgotten(clone: Clone, store: Path) -> None:
    """Their state is on another machine; a bucket that two people share was emptied under one of them."""
    theirs = Use("bob", "v6e-32", "5" * 16, "6" * 16)
    uses.record(open_store(store), theirs)
    kept = clone.run("slipway", "gc", str(store), "--delete", "--min-age-h", "0")
    assert "in use by bob/v6e-32, whose last `up` was 0 days ago" in kept.stdout, said(kept)
    assert f"wheelhouses/{'5' * 16}/SHA256SUMS" in open_store(store).keys("wheelhouses/")
    assert f"bundles/{'6' * 16}/bundle.tar" in open_store(store).keys("bundles/")

    refused = clone.run("slipway", "gc", str(store), "--forget", "bob")
    assert refused.stderr == "error: --forget is 'bob'; give OWNER/STACK, as `slipway gc` lists them\n"
    forgotten = clone.run("slipway", "gc", str(store), "--forget", "bob/v6e-32", "--delete")
    assert "forgot 1 uses of bob/v6e-32" in forgotten.stdout, said(forgotten)
    assert f"bundles/{'6' * 16}/bundle.tar" not in open_store(store).keys("bundles/")


def test_what_runs_in_the_project_keeps_what_it_uses_though_nobody_left_word_of_it(
    clone: Clone, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of 0.1.0, which kept no record; or one whose record another clone's `destroy` took with its own."""
    archive = store / "bundles" / ("6" * 16) / "bundle.tar"
    archive.write_bytes(Bundle({"wheelhouse": b"5" * 16}).archive())
    os.utime(archive, (1e9, 1e9))
    host = HostScript("v6e-8", 1, 1, 8, "gs://bucket", "6" * 16)
    with ObjectStore(store.parent) as server, TpuApi(Cloud(INSTANT)) as api:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv(TPU, api.url)
        Stack(wanted(metadata={"startup-script": startup_script(host, "")}), api.advance).up()
        kept = clone.run("slipway", "gc", "gs://bucket", "--project", "p", "--delete")
        assert kept.returncode == 0, said(kept)
        for what, state in (("queuedResources", "ACTIVE"), ("nodes", "READY")):
            assert f"  in use by projects/p/locations/us-east5-b/{what}/q-s, which is {state}\n" in kept.stdout
        assert f"wheelhouses/{'5' * 16}/SHA256SUMS" in open_store(store).keys("wheelhouses/")
        assert archive.exists()
        with api.lock:
            api.cloud.ledger.requests.clear()
            api.cloud.ledger.nodes.clear()
        key = wanted_key("v6e-8", "2bd806-1")  # of a request that waits, whose metadata names another bundle
        told.write(open_store("gs://bucket"), key, "6" * 16)
        kept = clone.run("slipway", "gc", "gs://bucket", "--project", "p", "--delete")
        assert "  in use by hosts of v6e-8, which learn it when they boot\n" in kept.stdout, said(kept)
        assert archive.exists()
        open_store("gs://bucket").delete(key)
        assert clone.run("slipway", "gc", "gs://bucket", "--project", "p", "--delete").returncode == 0
        assert not archive.exists()


def test_text_that_no_run_of_anybody_names_goes_from_the_data_bucket(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's record names its text for ever, a colleague's use by the run spec in its bundle."""
    artifacts, data, runs = (f"slipway-{name}-us-east5-my-project" for name in ("artifacts", "data", "checkpoints"))
    recorded, used, unused, young = (f"{number:016x}" for number in range(1, 5))
    with ObjectStore(tmp_path / "google", (artifacts, data, runs)) as server, TpuApi(Cloud(INSTANT)) as api:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv(TPU, api.url)
        for content in (recorded, used, unused, young):
            for name in ("manifest.json", "train-0.array_record"):
                path = server.root / data / "prepared" / content / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("12345")
                os.utime(path, None if content == young else (1e9, 1e9))
        record = server.root / runs / "a-stack-of-bobs" / "run" / "record.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"identity": {"data": recorded}, "starts": []}))
        theirs = Use("bob", "v6e-32", "5" * 16, "6" * 16)
        uses.record(open_store(f"gs://{artifacts}"), theirs)
        refused = clone.run("slipway", "gc", "v6e-32", "--data", "--delete")
        assert f"bob/v6e-32 has begun an `up` whose bundle {'6' * 16} is not in gs://{artifacts}" in refused.stderr
        archive = server.root / artifacts / "bundles" / ("6" * 16) / "bundle.tar"
        archive.parent.mkdir(parents=True)
        spec = yaml.safe_dump({"data": {"content": used}}).encode()
        archive.write_bytes(Bundle({"wheelhouse": b"5" * 16, "run_spec.yaml": spec}).archive())

        shown = clone.run("slipway", "gc", "v6e-32", "--data")
        assert shown.returncode == 0, said(shown)
        assert (
            f"{unused}, 2 files\n1 texts, 10 bytes would go; delete them with: slipway gc v6e-32 --data" in shown.stdout
        )
        assert "2 texts are read by stacks" in shown.stdout
        deleted = clone.run("slipway", "gc", "v6e-32", "--data", "--delete")
        assert "deleted 1 texts, 10 bytes" in deleted.stdout, said(deleted)
        prepared = server.root / data / "prepared"
        left = {path.parent.name for path in prepared.rglob("*") if path.is_file()}
        assert left == {recorded, used, young}
        assert "nothing to delete" in clone.run("slipway", "gc", "v6e-32", "--data").stdout
        local = clone.run("slipway", "gc", "local", "--data")
        assert local.stderr.startswith(
            "error: --data is of a stack whose prepared text lies in a bucket, which 'local' is"
        )


def test_what_cannot_be_read_stops_before_anything_is_deleted(clone: Clone, store: Path) -> None:
    before = list(open_store(store).keys())

    record = clone.directory / ".slipway" / "local.used" / "runs" / "r" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    refused = clone.run("slipway", "gc", str(store), "--delete")
    assert refused.returncode == 2
    assert "record.json is not readable" in refused.stderr
    record.unlink()

    state = clone.directory / ".slipway" / "state" / ".pulumi" / "stacks" / "slipway" / "local.used.json"
    state.write_text(state.read_text()[:100])
    refused = clone.run("slipway", "gc", str(store), "--delete")
    assert refused.returncode == 2
    assert "nothing may be deleted" in refused.stderr
    assert "Traceback" not in said(refused)
    assert len(refused.stderr.strip().splitlines()) == 1
    assert list(open_store(store).keys()) == before

    elsewhere = clone.run("slipway", "gc", "azblob://bucket", "--delete")
    assert (elsewhere.returncode, elsewhere.stdout) == (2, "")
    assert elsewhere.stderr == (
        "error: 'azblob://bucket' is not an artifact store; allowed are a directory, file:///directory,"
        " gs://bucket[/prefix] and s3://bucket[/prefix]\n"
    )
