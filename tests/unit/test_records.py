"""Run records in a directory and in a bucket, whose server is real: one run, many starts, and whose name it is."""

from __future__ import annotations

import dataclasses
import getpass
import json
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.paths import ROOT
from infra.runs import records
from infra.runs.records import Installed, Starters
from infra.runs.run_plan import run_spec
from infra.stack_file.settings import from_file
from training.run_spec import DataSpec, RunSpec

INSTALLED = Installed("w", "b")


@pytest.fixture(params=["directory", "bucket"])
def spec(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunSpec]:
    workload = from_file("local").model_copy(update={"run_name": "mine"})
    if request.param == "directory":
        yield run_spec(workload, tmp_path / "runs", None)
        return
    with ObjectStore(tmp_path / "buckets", ("ours",)) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield run_spec(workload, "gs://ours/local", None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree that is no git checkout: what git says is another test's."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "uv.lock").write_bytes((ROOT / "uv.lock").read_bytes())
    return tmp_path / "tree"


def kept(spec: RunSpec) -> list[str]:
    return list(filter(records.KEY.fullmatch, open_store(records.location(spec)).keys()))


def test_each_start_is_an_entry_and_more_steps_are_the_same_run(spec: RunSpec, root: Path) -> None:
    assert records.read(spec) is None
    longer = dataclasses.replace(spec, steps=spec.steps + 1)
    first, second = (records.enter(each, INSTALLED, root) for each in (spec, longer))
    assert first == second
    record, *starts = kept(spec)
    assert record == "record.json"
    store = open_store(records.location(spec))
    entered = [json.loads(store.read(key)) for key in starts]
    assert [start["steps"] for start in entered] == [spec.steps, spec.steps + 1]
    assert {start["bundle"] for start in entered} == {"b"}
    assert Starters(store).of_host("b", time.time()) == f"{getpass.getuser()}@{platform.node()}"
    assert Starters(store).of_host("another", time.time()) == ""
    assert records.location(spec).startswith("gs://ours/local/") or Path(records.location(spec)).is_dir()


def test_another_model_does_not_get_the_name_of_a_run(spec: RunSpec, root: Path) -> None:
    records.enter(spec, INSTALLED, root)
    before = kept(spec)
    other = dataclasses.replace(spec, maxtext={**spec.maxtext, "base_mlp_dim": 4096})
    with pytest.raises(StoreError, match=r"run 'mine' belongs to other settings \(training.base_mlp_dim: .* -> 4096\)"):
        records.enter(other, INSTALLED, root)
    assert kept(spec) == before


def with_hosts(spec: RunSpec, hosts: int, **maxtext: int) -> RunSpec:
    return dataclasses.replace(spec, hosts_per_slice=hosts, maxtext={**spec.maxtext, **maxtext})


def test_half_of_the_hosts_continue_a_run_with_as_many_rows_a_step(spec: RunSpec, root: Path) -> None:
    """Its name is then said in the stack file: another number of hosts is another run otherwise."""
    text = DataSpec("/data", "0" * 16, 2)
    began = dataclasses.replace(with_hosts(spec, 4, per_device_batch_size=3), data=text)
    id = records.enter(began, INSTALLED, root)
    assert records.enter(with_hosts(began, 2, per_device_batch_size=6), INSTALLED, root) == id
    rows = began.rows_per_step
    with pytest.raises(StoreError, match=rf"belongs to other settings \(rows_per_step: {rows} -> {rows // 2}\)"):
        records.enter(with_hosts(began, 2), INSTALLED, root)
    with pytest.raises(StoreError, match=r"began with 4 hosts, each of which read a share of the text; 3 cannot have"):
        records.enter(with_hosts(began, 3, per_device_batch_size=4), INSTALLED, root)


def test_of_many_first_starts_at_once_one_makes_the_record(spec: RunSpec, root: Path) -> None:
    """Two clones start the same run: both go on with one id. None overwrites the other's start."""
    ready, ids = threading.Barrier(4), list[str]()

    def start() -> None:
        ready.wait()
        ids.append(records.enter(spec, INSTALLED, root))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4
    assert len(set(ids)) == 1
    assert len(kept(spec)) == 1 + 4


def test_a_record_of_0_1_0_goes_on(spec: RunSpec, root: Path) -> None:
    """Which had its starts in it, and rewrote it at each."""
    identifier = records.enter(spec, INSTALLED, root)
    store = open_store(records.location(spec))
    old = json.loads(store.read("record.json")) | {"starts": [{"wheelhouse": "w0", "bundle": "b0"}]}
    for key in kept(spec):
        store.delete(key)
    file = root / "record.json"
    file.write_text(json.dumps(old))
    store.put("record.json", file)
    assert records.enter(spec, INSTALLED, root) == identifier
    assert json.loads(store.read("record.json")) == old
    assert len(kept(spec)) == 2


def test_a_record_that_cannot_be_written_stops_before_anything_starts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other `up` was faster: there is no record, and so no run."""
    with ObjectStore(tmp_path / "buckets", ("ours",)) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        spec = run_spec(from_file("local").model_copy(update={"run_name": "mine"}), "gs://ours/local", None)
        server.fail(StoreFaultKind.DENIED, "POST")
        with pytest.raises(StoreError, match=r"cannot store .* in gs://ours/local/mine: permission denied"):
            records.enter(spec, INSTALLED, root)
        assert kept(spec) == []
        records.enter(spec, INSTALLED, root)
        assert len(kept(spec)) == 2
