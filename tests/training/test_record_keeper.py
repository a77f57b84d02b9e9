"""What outlives a host of a run in a bucket: which lines are written when, and how a new disk gets them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.cluster import COMPILED
from tests.training.emulated_bucket import OUTPUT
from tests.training.tiny import TINY
from training import launch, run_objects
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase, of, write_status
from training.hosts import Host
from training.plan import Plan
from training.record_keeper import EVERY_S, KeptRecord, RecordKeeper, fetch, is_due
from training.run_objects import HostStart, StartKeys, chunk_name, chunks_in_order, newest_starts
from training.run_spec import RunSpec
from training.step_record import read_record

RUN, STARTED = f"{OUTPUT}/run", 1764129600.25
CHUNKS = run_objects.chunks_of(1)


def line(step: int, loss: float = 5.0) -> dict[str, Any]:
    return {"step": float(step), "learning/loss": loss}


@dataclass
class RecordingHost:
    """Its directory, a bucket that may refuse, and a clock that a test sets."""

    directory: Path
    objects: dict[str, str] = field(default_factory=dict[str, str])
    refuses: bool = False
    seconds: float = 0.0
    started: float = STARTED

    @property
    def record(self) -> Path:
        return self.directory / "metrics" / "host-1.jsonl"

    @property
    def plan(self) -> Plan:
        numbers = (2, "10.0.0.1:8482", 4, 8, 100, 64)
        record = str(self.record)
        return Plan(
            1, *numbers, f"{RUN}/checkpoints", "", record, 30, 600, 60, 0, self.started, "", {}, None, RUN, "b" * 16
        )

    def put(self, key: str, text: str) -> None:
        if self.refuses:
            raise OSError("Forbidden: b/bucket/o\nno")
        self.objects[key] = text

    def keeper(self) -> RecordKeeper:
        return RecordKeeper(self.plan, self.directory, self.put, lambda: self.seconds)

    def trains(self, *steps: dict[str, Any], saved: int = 0, resumed_from: int | None = None, half: str = "") -> None:
        self.record.parent.mkdir(exist_ok=True)
        with self.record.open("a") as file:
            file.write("".join(json.dumps(each) + "\n" for each in steps) + half)
        self.says(
            HostStatus(Phase.TRAINING, self.started, self.started, steps=100, saved=saved, resumed_from=resumed_from)
        )

    def says(self, status: HostStatus) -> None:
        write_status(self.directory, status)

    def chunks(self) -> list[list[int]]:
        """The steps of each, in order."""
        names = chunks_in_order(key.rpartition("/")[2] for key in self.objects)
        return [
            [int(json.loads(text)["step"]) for text in self.objects[f"{CHUNKS}/{name}"].splitlines()] for name in names
        ]


@pytest.fixture
def host(tmp_path: Path) -> RecordingHost:
    return RecordingHost(tmp_path)


@pytest.mark.parametrize(
    ("newest", "sent", "saved", "waited_s", "due"),
    [
        (3, -1, 0, 1.0, False),
        (3, -1, 4, 1.0, True),
        (2, -1, 4, 1.0, False),  # MaxText writes a step's line when the next one is done
        (6, 3, 4, 1.0, False),
        (6, 3, 4, EVERY_S, True),
    ],
)
def test_lines_go_once_a_checkpoint_has_their_steps_and_every_few_minutes(
    newest: int, sent: int, saved: int, waited_s: float, due: bool
) -> None:
    assert is_due(newest, sent, saved, waited_s) is due


def test_each_line_is_in_one_chunk_and_half_a_line_waits(host: RecordingHost) -> None:
    keeper = host.keeper()
    host.trains(line(0), line(1), half='{"step": 2.0')
    keeper.go_on()
    assert host.chunks() == [], "nothing is saved, and no time has passed"
    host.seconds = EVERY_S
    keeper.go_on()
    assert host.chunks() == [[0, 1]]
    with host.record.open("a") as file:
        file.write(', "learning/loss": 5.0}\n')
    host.trains(line(3), saved=4)
    keeper.go_on()
    host.trains(line(4), saved=4)
    keeper.go_on()
    assert host.chunks() == [[0, 1], [2, 3]], "step 4 waits"
    keeper.finish()
    assert host.chunks() == [[0, 1], [2, 3], [4]]
    assert f"{CHUNKS}/2025-11-26T04:00:00.250000-000001-2-3.jsonl" in host.objects


def test_the_next_start_goes_on_where_the_last_one_was_killed_and_order_stays_that_of_writing(
    host: RecordingHost,
) -> None:
    """Steps 2 and 3 were never written; the next start does them again, and its values count."""
    host.trains(line(0), line(1), saved=2)
    host.keeper().go_on()
    host.trains(line(2, 7.0), line(3, 7.0), saved=2)
    host.started += 60.0
    again = host.keeper()
    host.trains(line(2, 8.0), saved=2, resumed_from=2)
    host.seconds = EVERY_S
    again.go_on()
    host.trains(line(3, 8.0), saved=4, resumed_from=2)
    again.go_on()
    names = chunks_in_order(key.rpartition("/")[2] for key in host.objects)
    lines = [json.loads(text) for name in names for text in host.objects[f"{CHUNKS}/{name}"].splitlines()]
    assert lines == list(read_record(host.record))
    assert host.chunks() == [[0, 1], [2, 3, 2], [3]]


def test_two_keepers_at_once_write_lines_twice_and_leave_none_out(host: RecordingHost) -> None:
    """That of a start whose launcher was killed is at its end, while the next start's begins."""
    host.trains(line(0), line(1))
    record = KeptRecord(host.record)
    chunk = record.unsent()
    assert chunk and (chunk.first, chunk.last) == (0, 1)
    host.keeper().finish()
    host.trains(line(2))
    record.sent(chunk)
    host.keeper().finish()
    assert host.chunks() == [[0, 1], [2]]


def test_a_start_and_its_last_word_are_kept_and_a_start_that_was_killed_has_none(host: RecordingHost) -> None:
    status = HostStatus(Phase.STARTING, STARTED, STARTED, steps=100)
    host.says(status)
    keeper = host.keeper()
    keeper.go_on()
    assert host.objects == {}, "what it resumes from is not known"
    host.trains(line(7), resumed_from=7)
    keeper.go_on()
    keys = newest_starts(host.objects)
    start = HostStart.of(json.loads(host.objects[keys[1].start]))
    assert (start.host, start.hosts, start.bundle, start.resumed_from, start.steps) == (1, 2, "b" * 16, 7, 100)
    assert keys[1].end is None
    host.says(status.ended(ExitCode.INTERRUPTED, "told to stop; 8 of 100 steps are saved"))
    keeper.finish()
    keys = newest_starts(host.objects)
    assert keys[1].end and of(json.loads(host.objects[keys[1].end])).phase is Phase.INTERRUPTED
    assert host.chunks() == [[7]]


def test_a_bucket_that_refuses_is_said_once_and_asked_again_and_nothing_is_lost(
    host: RecordingHost, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = host.keeper()
    host.refuses = True
    host.trains(line(0), saved=1)
    for _ in range(3):
        keeper.go_on()
        host.seconds += 10.0
    assert capsys.readouterr().out == (
        f"slipway: the record cannot be kept in {RUN}: gs://bucket answers 403: no; trying on\n"
    )
    host.refuses = False
    keeper.go_on()
    assert host.chunks() == [], "not before a pause is over"
    host.seconds += 300.0
    keeper.go_on()
    assert host.chunks() == [[0]]
    assert capsys.readouterr().out == f"slipway: the record is kept in {RUN} again\n"


def test_names_sort_as_the_lines_were_written() -> None:
    names = [chunk_name(STARTED, 0, 30, 28), chunk_name(STARTED, 1, 29, 40), chunk_name(STARTED + 0.01, 0, 5, 9)]
    assert chunks_in_order(["notes.txt", *reversed(names), "host-0.jsonl"]) == names


def test_the_newest_start_of_each_host_counts() -> None:
    starts = [run_objects.start_key(0, moment) for moment in (1.0, 2.0)] + [run_objects.start_key(10, 1.0)]
    ends = [run_objects.end_key(0, 1.0), run_objects.end_key(10, 1.0)]
    assert newest_starts([*starts, *ends, "hosts/else.json"]) == {
        0: StartKeys(starts[1], None),
        10: StartKeys(starts[2], ends[1]),
    }


def test_a_new_disk_has_the_newest_lines_and_does_not_write_them_again(
    host: RecordingHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, keeper = tmp_path / "run", host.keeper()  # which is there before the training is
    fetch(host.plan, run)
    assert not host.record.exists(), "the run is new"
    (run / CHUNKS).mkdir(parents=True)
    for number in range(3):
        lines = "".join(json.dumps(line(step)) + "\n" for step in range(300 * number, 300 * (number + 1)))
        name = chunk_name(STARTED, number, 300 * number, 300 * (number + 1) - 1)
        (run / CHUNKS / name).write_text(lines)
    fetch(host.plan, run)
    assert [int(each["step"]) for each in read_record(host.record)] == list(range(300, 900))
    assert "600 lines of it are from" in capsys.readouterr().out
    assert KeptRecord(host.record).unsent() is None
    before = host.record.read_text()
    host.trains(line(900))
    fetch(host.plan, run)
    assert host.record.read_text() == before + json.dumps(line(900)) + "\n", "a disk that has one keeps it"
    keeper.finish()
    assert host.chunks() == [[900]]


def test_what_a_bad_step_has_read_is_written_beside_the_checkpoints(host: RecordingHost) -> None:
    assert host.plan.records_of(7) == "", "synthetic data has no records"
    assert replace(host.plan, data="/data").records_of(7) == f"{RUN}/metrics/bad-step-7-host-1.json"


@pytest.mark.parametrize(
    ("output", "run", "record"),
    [
        ("gs://bucket/out/", "gs://bucket/out/small", "host/runs/small/metrics/host-1.jsonl"),
        ("/runs", "", "/runs/small/metrics/host-1.jsonl"),
    ],
)
def test_each_run_in_a_bucket_has_a_record_of_its_own_on_a_host(
    tmp_path: Path, output: str, run: str, record: str
) -> None:
    """The incident: the losses of another model stood in it, and steps were held to them."""
    spec = RunSpec("test", "small", "cpu", 1, 2, 2, 10, output, None, TINY)
    options = launch.Options(tmp_path / "run_spec.yaml", tmp_path / "host", COMPILED, 20, 600, 60, False)
    who, environ = Host(1, 2, "127.0.0.1:9", "a test"), {"SLIPWAY_BUNDLE": "b" * 16}
    plan, _ = launch.prepare(spec, who, environ, options, STARTED)
    assert (plan.run, plan.bundle) == (run, "b" * 16)
    assert plan.metrics_record == str(tmp_path / record)


@pytest.mark.parametrize(("platform", "partition"), [("gpu", 1), ("cpu", None)])
def test_hosts_of_gpus_say_of_which_slice_they_are(tmp_path: Path, platform: str, partition: int | None) -> None:
    """Else each is one to JAX, by its boot id, and MaxText divides over a host what a slice should hold."""
    spec = RunSpec("test", "small", platform, 2, 2, 8, 10, "gs://bucket/out", None, TINY)
    options = launch.Options(tmp_path / "run_spec.yaml", tmp_path / "host", COMPILED, 20, 600, 60, False)
    plan, _ = launch.prepare(spec, Host(3, 4, "127.0.0.1:9", "a test"), {}, options, STARTED)
    assert plan.partition == partition
