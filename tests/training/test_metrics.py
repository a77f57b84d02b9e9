"""The metrics file that is emptied under its reader, speed from wall time, and the status that follows."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.host_status import HostStatus, Phase
from training.loss_judge import BadStep, Bounds
from training.metrics import Listeners, MetricsTail, Observer, Progress, SpeedMeter, lasting
from training.standstill import Activity, Measures, Pace, Took
from training.step_times import STEP_S, Speed

STATUS = HostStatus(Phase.COMPILING, started=0.0, updated=0.0, steps=100)


def append(path: Path, **fields: float) -> None:
    with path.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def test_tail_reads_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    tail = MetricsTail(path)
    assert tail.read() == []
    append(path, step=0)
    append(path, step=1)
    assert tail.read() == [{"step": 0}, {"step": 1}]
    assert tail.read() == []


def test_tail_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 0}\n{"st')
    tail = MetricsTail(path)
    assert tail.read() == [{"step": 0}]
    with path.open("a") as file:
        file.write('ep": 1}\n')
    assert tail.read() == [{"step": 1}]


def test_tail_starts_over_in_an_emptied_file_even_when_it_is_longer_by_then(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append(path, step=0)
    tail = MetricsTail(path)
    tail.read()
    path.write_text("")
    for step in range(5, 9):
        append(path, step=step)
    assert [line["step"] for line in tail.read()] == [5, 6, 7, 8]


@given(st.lists(st.sampled_from(["append", "empty", "read"]), max_size=40))
def test_tail_loses_nothing_if_it_reads_before_the_file_is_emptied(
    tmp_path_factory: object, actions: list[str]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "m.jsonl"  # pyright: ignore[reportAttributeAccessIssue]
    tail, written, found = MetricsTail(path), 0, []
    for action in [*actions, "read"]:
        if action == "append":
            append(path, step=written)
            written += 1
        else:
            found += tail.read()
            if action == "empty":
                path.write_text("")
    assert [line["step"] for line in found] == list(range(written))


def test_speed_is_wall_time_over_windows_of_ten_steps() -> None:
    meter = SpeedMeter(tokens_per_step=1000)
    for step in range(1, 11):
        meter.step(step, at=100.0 + step * 0.5)
    assert meter.tokens_per_s is None  # ten steps, nine intervals
    meter.step(11, at=105.5)
    assert meter.tokens_per_s == 2000.0
    assert meter.seconds_for(50) == 25.0


def test_evaluation_is_not_training_time() -> None:
    meter = SpeedMeter(1000)
    meter.step(1, at=0.0)
    meter.pause(30.0)
    meter.step(11, at=35.0)
    assert meter.tokens_per_s == 2000.0


def test_log_and_metrics_become_the_status() -> None:
    progress = Progress(STATUS, SpeedMeter(10))
    for step in range(21):
        progress.log_record(f"completed step: {step}, seconds: 0.1, loss: 5.123", at=10.0 + step)
    progress.metrics_lines(
        [{"step": 20.0, "learning/loss": 5.1234}, {"step": 20.0, "eval/total_loss": 9.0, "eval/avg_loss": 5.5}]
    )
    status = progress.status
    assert (status.phase, status.step, status.first_step_at) == (Phase.TRAINING, 21, 10.0)
    assert (status.loss, status.heldout_loss, status.tokens_per_s, status.eta_s) == (5.1234, 5.5, 10.0, 79.0)


def test_flops_are_by_the_wall_time_of_steps_and_each_step_is_recorded_with_its_own() -> None:
    """MaxText's own figure of a step that was handed on in 0.1 s and took 1 s was ten times too high."""
    progress, recorded = Progress(STATUS, SpeedMeter(10)), list[dict[str, object]]()
    handed_on = {"perf/per_device_tflops": 185.2, "perf/per_device_tflops_per_sec": 1852.0}
    for step in range(12):
        progress.log_record(f"completed step: {step}, seconds: 0.1, loss: 5.123", at=10.0 + step)
        recorded += progress.metrics_lines([{"step": step, "learning/loss": 5.0} | handed_on])
    assert (progress.status.step_s, progress.status.tflops_per_s) == (1.0, pytest.approx(185.2))
    assert [line.get(STEP_S) for line in recorded] == [None] + [1.0] * 11, "the first one compiles"


def test_a_step_whose_loss_is_read_while_an_evaluation_runs_has_no_time() -> None:
    """MaxText's order: the loss before the evaluation is read in it, and the one of its own step at its end."""
    progress, at = Progress(STATUS, SpeedMeter(10)), 0.0
    for step in range(6):
        if step == 3:
            progress.log_record("Starting eval after train step 4", at)
        at += 30.0 if step in (3, 4) else 1.0
        progress.log_record(f"completed step: {step}, seconds: 0.1, loss: 5.123", at)
        if step == 4:
            progress.log_record("Completed eval after train step 4, loss=5.5", at)
    lines = progress.metrics_lines([{"step": float(step), "learning/loss": 5.0} for step in range(6)])
    assert [line.get(STEP_S) for line in lines] == [None, 1.0, 1.0, None, None, 1.0]


def test_a_start_goes_on_with_the_times_that_its_record_has(tmp_path: Path) -> None:
    record = tmp_path / "host-0.jsonl"
    for step in range(20):
        append(record, **{"step": float(step), "learning/loss": 5.0, STEP_S: 2.0 if step < 18 else 99.0})
    observer = Observer(tmp_path, tmp_path / "source.jsonl", record, replace(STATUS, resumed_from=18), 10)
    observer.start()
    observer.stop()
    assert observer.progress.clock.speed() == Speed(2.0, None), "steps that are done again do not count"


def test_reasons_to_stop_are_heard() -> None:
    progress = Progress(STATUS, SpeedMeter(10))
    progress.log_record("Training stopped: Job received termination signal (SIGTERM).", at=1.0)
    assert progress.stop_reason == "Job received termination signal (SIGTERM)."
    progress.log_record("Aborting training due to NaN loss.", at=2.0)
    assert progress.stop_reason == "NaN loss."


def test_record_keeps_steps_and_evaluations_but_not_their_batches() -> None:
    step, batch = {"step": 3, "learning/loss": 5.0}, {"step": 0, "eval/avg_loss": 5.0, "eval/step_time_seconds": 1}
    whole = {"step": 3, "eval/avg_loss": 5.0, "eval/total_loss": 50.0}
    assert lasting([step, batch, whole]) == [step, whole]


def test_line_written_just_before_maxtext_empties_its_file_is_kept(tmp_path: Path) -> None:
    """MaxText's order: log "Completed eval step: 0", empty the file, write that batch's line."""
    source, record = tmp_path / "source.jsonl", tmp_path / "run" / "metrics" / "host-0.jsonl"
    observer = Observer(tmp_path, source, record, STATUS, tokens_per_step=10)
    observer.start()
    for step in range(50):
        append(source, **{"step": float(step), "learning/loss": 5.0})
        observer.handle(logging.makeLogRecord({"msg": "Completed eval step: 0, seconds: 0.1"}))
        source.write_text("")
    observer.stop()
    observer.refresh(1.0)
    assert [json.loads(line)["step"] for line in record.read_text().splitlines()] == list(range(50))


def test_a_step_beyond_its_bounds_is_told_by_what_was_usual_before_this_start(tmp_path: Path) -> None:
    """Whatever a former start has seen at that step or after it."""
    source, record = tmp_path / "source.jsonl", tmp_path / "metrics" / "host-0.jsonl"
    record.parent.mkdir()
    for step in range(20):
        append(record, **{"step": float(step), "learning/loss": 5.0 if step < 16 else float("nan")})
    told: list[BadStep] = []
    resumed = HostStatus(Phase.COMPILING, 0.0, 0.0, 16, 100, resumed_from=16)
    observer = Observer(
        tmp_path, source, record, resumed, 10, Listeners(went_bad=told.append), held_to=Bounds(spike=3.0)
    )
    observer.start()
    append(source, **{"step": 16.0, "learning/loss": 14.0})
    observer.stop()
    observer.refresh(1.0)
    assert told == []
    append(source, **{"step": 17.0, "learning/loss": 16.0})
    observer.refresh(2.0)
    assert told == [BadStep(17, "loss", 16.0, 5.0, 16)]


def test_half_a_line_of_an_earlier_start_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    """A full disk or a kill leaves one."""
    source, record = tmp_path / "source.jsonl", tmp_path / "metrics" / "host-0.jsonl"
    record.parent.mkdir()
    record.write_text('{"step": 0.0, "learning/loss": 5.0}\n{"step": 1.0, "learn')
    append(source, **{"step": 1.0, "learning/loss": 4.0})
    observer = Observer(tmp_path, source, record, STATUS, tokens_per_step=10)
    observer.start()
    observer.stop()
    observer.refresh(1.0)
    assert [json.loads(line)["step"] for line in record.read_text().splitlines()] == [0, 1]


def log_of_a_thread(observer: Observer, log: Callable[[logging.Logger], None]) -> None:
    """What a library writes into its log while it handles an exception in a thread of its own."""
    logger = logging.getLogger(f"test of {id(observer)}")
    logger.propagate = False
    logger.addHandler(observer)

    def handle() -> None:
        try:
            Path("/nowhere/at all").read_bytes()
        except OSError:
            log(logger)

    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (lambda logger: logger.exception("thread raised an exception"), ["FileNotFoundError"]),
        (lambda logger: logger.error("a sentence about it"), []),
        (lambda logger: logger.warning("tried again", exc_info=True), []),
        (lambda logger: logger.exception("Failed to remove checkpoint (/c/8)"), []),
    ],
    ids=["an error with its exception", "a sentence alone", "a warning", "an old checkpoint that stays"],
)
def test_what_a_library_keeps_to_a_thread_is_told(
    tmp_path: Path, log: Callable[[logging.Logger], None], told: list[str]
) -> None:
    heard: list[str] = []
    source, record = tmp_path / "source.jsonl", tmp_path / "host-0.jsonl"
    listeners = Listeners(failed=lambda error: heard.append(type(error).__name__))
    observer = Observer(tmp_path, source, record, STATUS, 10, listeners)
    log_of_a_thread(observer, log)
    assert heard == told


def test_what_the_main_thread_logs_it_raises_itself(tmp_path: Path) -> None:
    heard: list[BaseException] = []
    observer = Observer(
        tmp_path, tmp_path / "source.jsonl", tmp_path / "host-0.jsonl", STATUS, 10, Listeners(heard.append)
    )
    try:
        Path("/nowhere/at all").read_bytes()
    except OSError:
        observer.handle(logging.makeLogRecord({"msg": "raised", "levelno": logging.ERROR, "exc_info": sys.exc_info()}))
    assert heard == []


def test_what_is_saved_is_known_when_all_hosts_have_written_it() -> None:
    """Orbax's own lines."""
    progress = Progress(STATUS, SpeedMeter(10))
    thread = "[process=0][thread=save_finalize][step=7] CheckpointManager Save Finalize is"
    progress.log_record("[process=0] Saving checkpoint at step 7", 1.0)
    progress.log_record(f"{thread} syncing with other hosts...", 2.0)
    assert progress.status.saved is None
    progress.log_record(f"{thread} done on all hosts.", 3.0)
    assert progress.status.saved == 8


def test_a_save_that_outlasts_a_notice_is_said_once_with_its_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observer = Observer(tmp_path, tmp_path / "source.jsonl", tmp_path / "host-0.jsonl", STATUS, 10, notice_s=30.0)
    pace = observer.progress.pace
    for step in range(1, 10):
        pace.step(step, 2.0 * step)
    observer.refresh(0.0)
    assert capsys.readouterr().out == "", "no save has ended yet"
    pace.began(Activity.SAVE, 20.0)
    pace.ended(Activity.SAVE, 60.0)
    observer.refresh(0.0)
    observer.refresh(1.0)
    said = capsys.readouterr().out
    warning = "a preemption is announced 30 s before, and a step with a save takes 42 s here (2.0 s and 40.0 s at"
    assert said.count(warning) == 1


def test_a_save_that_outlasted_a_notice_at_an_earlier_start_is_said_before_any_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pace = Pace(60.0, Measures({Activity.STEP: Took(1.0, 3.0), Activity.SAVE: Took(20.0, 44.0)}))
    observer = Observer(
        tmp_path, tmp_path / "source.jsonl", tmp_path / "host-0.jsonl", STATUS, 10, pace=pace, notice_s=30.0
    )
    observer.refresh(0.0)
    assert "a step with a save takes 47 s here (3.0 s and 44.0 s at the longest)" in capsys.readouterr().out


def test_what_is_measured_is_kept_also_of_a_training_that_ends_at_once(tmp_path: Path) -> None:
    kept: list[Measures] = []
    source, record = tmp_path / "source.jsonl", tmp_path / "host-0.jsonl"
    observer = Observer(tmp_path, source, record, STATUS, 10, Listeners(keep=kept.append))
    observer.start()
    for step in range(1, 10):
        observer.progress.pace.step(step, 2.0 * step)
    observer.stop()
    assert kept[-1].took[Activity.STEP] == Took(2.0, 2.0)
