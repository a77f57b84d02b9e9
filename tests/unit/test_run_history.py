"""What is told of a run in a bucket whose hosts are gone: losses, and how each ended. The bucket's server is real."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.artifacts.store import StoreError
from infra.commands.main import app
from infra.emulated import STORAGE, TPU
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.emulators.tpu_api import TpuApi
from infra.operate.stack_status import Losses, losses
from infra.operate.stack_status import line as line_of
from infra.runs import records, run_history, run_plan
from infra.runs.records import location
from infra.stack_file.settings import from_file
from infra.targets.phases import LOST
from training import run_objects
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase
from training.run_objects import HostStart
from training.run_spec import RunSpec
from training.step_times import STEP_S

STACK, STARTED = "v6e-32", 1764129600.0


def line(step: int, loss: float) -> dict[str, Any]:
    return {"step": float(step), "learning/loss": loss}


class LeftBehind:
    """A run's place in the bucket, as hosts have written it."""

    def __init__(self, root: Path, spec: RunSpec) -> None:
        self.directory = root / location(spec).removeprefix("gs://")

    def write(self, key: str, text: str) -> None:
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def chunk(self, host: int, started: float, number: int, *lines: dict[str, Any]) -> None:
        steps = [int(each["step"]) for each in lines]
        name = run_objects.chunk_name(started, number, steps[0], steps[-1])
        self.write(f"{run_objects.chunks_of(host)}/{name}", "".join(json.dumps(each) + "\n" for each in lines))

    def start(self, host: int, started: float, resumed_from: int | None = None) -> None:
        start = HostStart(host, 8, f"worker-{host}", "b" * 16, "10.0.0.1:8482", started, 1000, resumed_from)
        self.write(run_objects.start_key(host, started), json.dumps(dataclasses.asdict(start)))

    def up(self, moment: float, bundle: str, by: str) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
        self.write(f"starts/{at[:-1]}.000000-abcd.json", json.dumps({"at": at, "bundle": bundle, "by": by}))

    def end(self, host: int, started: float, code: ExitCode, reason: str, step: int) -> None:
        trained = HostStatus(Phase.TRAINING, started, started, step=step, steps=1000, loss=4.5, saved=step)
        trained = dataclasses.replace(trained, step_s=0.5, tflops_per_s=459.0)
        self.write(run_objects.end_key(host, started), json.dumps(dataclasses.asdict(trained.ended(code, reason))))


@pytest.fixture
def spec() -> RunSpec:
    return run_plan.of_stack(from_file(STACK))


@pytest.fixture
def server(tmp_path: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    bucket = spec.output_directory.removeprefix("gs://").partition("/")[0]
    with ObjectStore(tmp_path / "buckets", (bucket,), page_size=2) as server:
        monkeypatch.setenv(STORAGE, server.url)
        yield server


@pytest.fixture
def left(server: ObjectStore, spec: RunSpec) -> LeftBehind:
    return LeftBehind(server.root, spec)


def test_chunks_are_read_in_the_order_of_their_lines_and_a_step_counts_as_it_was_done_last(
    left: LeftBehind, spec: RunSpec
) -> None:
    left.chunk(0, STARTED, 0, line(0, 9.0), line(1, 8.0))
    left.chunk(0, STARTED + 60, 0, line(2, 7.0), line(3, 7.0), line(2, 6.0))  # left by a start that was killed
    left.chunk(0, STARTED + 60, 1, line(3, 5.0), {"step": 3.0, "eval/avg_loss": 5.5, "eval/total_loss": 55.0})
    left.chunk(1, STARTED, 0, line(0, 1.0))
    left.write("metrics/bad-step-2-host-0.json", "{}")
    left.write("metrics/host-0/notes.txt", "whatever a person has put there")
    found = losses(run_history.steps(spec, 0))
    assert found == Losses(((0, 9.0), (1, 8.0), (2, 6.0), (3, 5.0)), ((3, 5.5),))
    assert losses(run_history.steps(spec, 1)).train == ((0, 1.0),)
    assert list(run_history.steps(spec, 2)) == []


def test_a_run_in_a_directory_is_read_from_its_file(spec: RunSpec, tmp_path: Path) -> None:
    here = dataclasses.replace(spec, output_directory=str(tmp_path))
    record = tmp_path / spec.run_name / "metrics" / "host-0.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(line(0, 9.0)) + "\n" + '{"step": 1.0')
    assert list(run_history.steps(here, 0)) == [line(0, 9.0)]
    (host,) = run_history.last_words(here)
    assert (host.index, host.phase, host.step, host.steps, host.loss, host.step_s) == (0, LOST, 1, 1000, 9.0, None)
    assert host.reason == "it is gone, and its record does not say how it ended"
    lines = [line(step, 9.0) | {STEP_S: 0.5, "perf/per_device_tflops": 100.0} for step in range(1000)]
    record.write_text("".join(json.dumps(each) + "\n" for each in lines))
    (host,) = run_history.last_words(here)
    assert (host.phase, host.step, host.step_s, host.tflops_per_s) == (Phase.FINISHED, 1000, 0.5, 200.0)


def test_the_newest_start_in_a_directory_of_runs_says_what_its_hosts_ran(spec: RunSpec, tmp_path: Path) -> None:
    assert records.newest_spec(tmp_path) is None
    for name, started in (("a", "2026-11-26T10:00:00"), ("b", "2026-11-26T09:00:00")):
        start = tmp_path / name / "starts" / f"{started}.000000-abcd.json"
        start.parent.mkdir(parents=True)
        start.write_text(json.dumps({"run_spec": dataclasses.replace(spec, run_name=name).to_yaml()}))
    assert records.newest_spec(tmp_path) == dataclasses.replace(spec, run_name="a")


def test_a_host_is_told_of_as_it_ended_its_newest_start(left: LeftBehind, spec: RunSpec) -> None:
    for started in (STARTED, STARTED + 60):
        left.start(0, started, resumed_from=7)
    left.end(0, STARTED, ExitCode.FAILED, "no space left", 5)
    left.end(0, STARTED + 60, ExitCode.INTERRUPTED, "told to stop; 12 of 1000 steps are saved", 12)
    (host,) = run_history.last_words(spec)
    assert (host.index, host.name, host.bundle) == (0, "worker-0", "b" * 16)
    assert (host.phase, host.step, host.steps, host.loss) == (Phase.INTERRUPTED, 12, 1000, 4.5)
    assert host.reason == "told to stop; 12 of 1000 steps are saved"


def test_who_ran_up_is_told_by_the_newest_start_of_the_hosts_bundle_before_it_began(
    left: LeftBehind, spec: RunSpec
) -> None:
    for host, started in ((0, STARTED + 30), (1, STARTED + 90), (2, STARTED - 30)):
        left.start(host, started)
    for second, bundle, by in ((0, "b" * 16, "ada@desk"), (40, "c" * 16, "eve@desk"), (60, "b" * 16, "bob@laptop")):
        left.up(STARTED + second, bundle, by)
    left.write("starts/2020-01-01T00:00:00.000000-abcd.json", json.dumps({"at": "2020-01-01T00:00:00Z"}))
    assert [host.started_by for host in run_history.last_words(spec)] == ["ada@desk", "bob@laptop", ""]
    assert "started by ada@desk" in line_of(run_history.last_words(spec)[0])


def test_a_start_that_came_to_no_training_is_told_with_the_steps_that_are_recorded(
    left: LeftBehind, spec: RunSpec
) -> None:
    left.start(0, STARTED)
    left.chunk(0, STARTED, 0, line(0, 9.0), line(1, 8.0))
    left.end(0, STARTED, ExitCode.INTERRUPTED, "told to stop", 2)
    left.start(0, STARTED + 60)
    left.end(0, STARTED + 60, ExitCode.BAD_INPUT, "coordinator port 8482 cannot be opened", 0)
    (host,) = run_history.last_words(spec)
    assert (host.phase, host.step, host.steps, host.loss) == (Phase.FAILED, 2, 1000, 8.0)
    assert host.reason == "coordinator port 8482 cannot be opened"


def test_a_host_without_a_last_word_is_lost_as_far_as_its_steps_are_recorded(left: LeftBehind, spec: RunSpec) -> None:
    left.start(0, STARTED)
    left.chunk(0, STARTED, 0, line(0, 9.0), line(1, 8.0))
    left.chunk(0, STARTED, 1, line(2, 7.5), {"step": 2.0, "eval/avg_loss": 5.5, "eval/total_loss": 55.0})
    left.start(10, STARTED, resumed_from=7)
    left.start(2, STARTED)
    left.end(2, STARTED, ExitCode.FINISHED, "all done", 1000)
    left.write(run_objects.end_key(2, STARTED), json.dumps({"phase": "paused", "started": 0.0, "updated": 0.0}))
    first, later_release, last = run_history.last_words(spec)
    assert (first.phase, first.step, first.loss) == (LOST, 3, 7.5)
    assert first.reason == "it is gone, and has said nothing of its end"
    assert (later_release.index, later_release.phase, later_release.step) == (2, LOST, 0)
    assert (last.index, last.phase, last.step, last.loss) == (10, LOST, 7, None)


def test_where_there_is_no_bucket_there_was_no_run(server: ObjectStore, spec: RunSpec) -> None:
    assert run_history.last_words(dataclasses.replace(spec, output_directory="gs://elsewhere/x")) == []
    server.fail(StoreFaultKind.DENIED)
    with pytest.raises(StoreError, match="permission denied"):
        run_history.last_words(spec)


@pytest.fixture
def no_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with TpuApi() as api:
        monkeypatch.setenv(TPU, api.url)
        yield


def said(verb: str, *options: str) -> str:
    return CliRunner().invoke(app, [verb, STACK, *options]).output


@pytest.mark.usefixtures("no_nodes")
def test_status_and_watch_tell_of_a_run_whose_slices_are_deleted(left: LeftBehind, spec: RunSpec) -> None:
    left.up(STARTED - 60, "b" * 16, "ada@desk")
    for host in (0, 1):
        left.start(host, STARTED)
        timed = {STEP_S: 0.25, "perf/per_device_tflops": 229.5}
        left.chunk(host, STARTED, 0, *(line(step, 9.0 - step / 10) | timed for step in range(20)))
    left.end(0, STARTED, ExitCode.INTERRUPTED, "told to stop; 20 of 1000 steps are saved", 20)
    status = said("status")
    assert f"{STACK}: absent, step 20 of 1000 (host 1 lost: it is gone, " in status
    speed = "0.5 s a step, 459 TFLOP/s a device, MFU 50.0%"
    assert f"  host 0 · interrupted · step 20/1000 · loss 4.500 · {speed} · told to stop; 20 of 1000" in status
    assert "20 of 1000 steps are saved · started by ada@desk\n" in status
    assert f"  nothing is deployed; this is how its hosts ended; start it with: make up STACK={STACK}\n" in status
    found = json.loads(said("status", "--json"))
    assert (found["phase"], [host["phase"] for host in found["hosts"]]) == ("absent", ["interrupted", "lost"])
    speeds = [(host["step_s"], host["tflops_per_s"], host["mfu"]) for host in found["hosts"]]
    assert speeds == [(0.5, 459.0, 0.5), (0.25, 918.0, 1.0)], "by its last word, and by the lines of one without"
    watch = said("watch")
    faster = "0.25 s a step, 918 TFLOP/s a device, MFU 100.0%"
    assert f"{STACK} host 1 · lost · step 20/1000 · loss 7.100 · {faster} · it is gone, " in watch
    assert watch.count("started by ada@desk") == 2
    assert f"{STACK} is not deployed; its run ended at step 20 of 1000: host 1 lost: " in watch
    assert f"training loss 9.000 -> 7.100 nats per token, {speed}\n" in watch
    assert f"metrics      {location(spec)}/metrics\n" in watch


@pytest.mark.usefixtures("no_nodes")
def test_a_bucket_that_cannot_be_read_is_said_and_the_stack_is_absent_all_the_same(
    server: ObjectStore, left: LeftBehind
) -> None:
    assert said("status") == f"{STACK}: absent\n  nothing is deployed; start it with: make up STACK={STACK}\n"
    server.fail(StoreFaultKind.DENIED, times=2)
    assert "  what its hosts have left is not known: cannot list gs://" in said("status")
    assert f"stack '{STACK}' has no hosts; start them with: make up STACK={STACK} (what was there is " in said("watch")
