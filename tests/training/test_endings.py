"""One sentence for each way a training can end: what the training sees, and what only its supervisor sees."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.cluster import ROOT
from training.endings import Cause, Ending, how_it_ended, of_error, of_process, unreadable_data
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase, write_status
from training.metrics import Observer
from training.plan import Plan
from training.supervisor import run
from training.trainer import last_word

PLAN = Plan(1, 4, "10.0.0.1:8482", 2, 8, 100, 64, "/c", "/s", "/m", 30, 600, 60, 0, 0.0, "", {})

# stderr of jaxlib 0.12.0, shortened
LOST_ONE = """E1121 coordination_service.cc:1518] Use error polling to propagate the following error to all tasks: \
UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
2
The tasks have crashed. Check the task logs for an earlier error
"""
LOST_TWO = LOST_ONE.replace("2\n", "2\n3\n")
STOOD_STILL = LOST_ONE.replace("2\n", "0\n1\n2\n3\n")
LOST_COORDINATOR = """F1121 client.h:86] Terminating process because the JAX distributed service detected errors. \
absl::Status: UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died
"""
NEVER_MET = "F1121 client.h:86] DEADLINE_EXCEEDED\n\nRPC: /xla.coordination.CoordinationService/RegisterTask\n"
# What a peer's kill has left in a socket is taken for the next exchange; seen under load, on two hosts.
GLOO = """terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at external/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4. \
Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?
"""
ABORT = -signal.SIGABRT


@pytest.mark.parametrize(
    ("code", "stderr", "expected"),
    [
        (ABORT, LOST_ONE, "host 2 was lost (no sign of life for 30 s); see host 2 for why"),
        (ABORT, LOST_TWO, "host 2, 3 was lost (no sign of life for 30 s); see host 2, 3 for why"),
        (ABORT, STOOD_STILL, "no host gave a sign of life for 30 s, this one included: the machine stood still"),
        (ABORT, LOST_COORDINATOR, "host 0 was lost (the coordinator 10.0.0.1:8482 is gone); see host 0 for why"),
        (ABORT, NEVER_MET, "the 4 hosts did not meet at 10.0.0.1:8482 within 600 s; see the other hosts"),
        (ABORT, GLOO, "another host was lost in the middle of an exchange; see the host that ended first for why"),
        (-signal.SIGKILL, "", "killed (SIGKILL); if nobody did it, the machine ran out of memory: see `dmesg`"),
        (-signal.SIGSEGV, "a\nb\n", "ended by signal SIGSEGV without a word of its own; last line of its log: b"),
        (3, "", "ended by exit code 3 without a word of its own; last line of its log: (none)"),
    ],
)
def test_end_that_the_training_could_not_explain(code: int, stderr: str, expected: str) -> None:
    ending = of_process(code, stderr, PLAN, stopping=False)
    assert (ending.code, ending.reason) == (ExitCode.FAILED, expected)
    assert (ending.cause is Cause.LOST_HOST) == ("host" in expected)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("UNAVAILABLE: Gloo all-reduce failed: Connection closed by peer", Cause.LOST_HOST),
        ('UNAVAILABLE: Error writing "a/zarr.json" at gs://bucket/run/8: HTTP response code: 503', Cause.OUTSIDE),
        ("429 POST https://storage.googleapis.com/upload: Too Many Requests", Cause.OUTSIDE),
        ("The TPU is already in use by process with pid 1234", Cause.OUTSIDE),
        ("Unable to initialize backend 'tpu': UNAVAILABLE: No ba16c7433 device found.", Cause.OUTSIDE),
        ("INTERNAL: Failed to open /dev/vfio/0: Device or resource busy", Cause.OUTSIDE),
        ("403 GET https://storage.googleapis.com/b: does not have storage.objects.get access", Cause.TRAINING),
        ("Incompatible shapes: (4, 503) and (4, 504)", Cause.TRAINING),
    ],
)
def test_what_another_start_may_mend_is_told_from_what_comes_again(error: str, cause: Cause) -> None:
    assert of_error(RuntimeError(error), None, hosts=2).cause is cause


@pytest.mark.parametrize(("index", "other"), [(0, 1), (1, 0)])
def test_of_two_hosts_the_other_is_named_when_an_exchange_breaks(index: int, other: int) -> None:
    plan = dataclasses.replace(PLAN, index=index, count=2)
    expected = f"host {other} was lost (in the middle of an exchange); see host {other} for why"
    ending = of_process(ABORT, GLOO, plan, stopping=False)
    assert (ending.code, ending.reason) == (ExitCode.FAILED, expected)


@pytest.mark.parametrize(("code", "stderr"), [(-signal.SIGKILL, ""), (ABORT, LOST_COORDINATOR)])
def test_end_while_stopping_is_an_interruption(code: int, stderr: str) -> None:
    assert of_process(code, stderr, PLAN, stopping=True).code is ExitCode.INTERRUPTED


def test_sigterm_of_the_training_alone_is_an_interruption() -> None:
    assert of_process(-signal.SIGTERM, "", PLAN, stopping=False).code is ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("completed", "stop_reason", "expected"),
    [
        (100, None, (ExitCode.FINISHED, "all 100 steps are done and saved")),
        (100, "Job received termination signal (SIGTERM).", (ExitCode.FINISHED, "all 100 steps are done and saved")),
        (
            40,
            "Job received termination signal (SIGTERM).",
            (ExitCode.INTERRUPTED, "told to stop; 40 of 100 steps are saved"),
        ),
        (
            40,
            "You may have run out of training data. Error: StopIteration",
            (ExitCode.FAILED, "out of training data after 40 of 100 steps (in the newest checkpoint)"),
        ),
        (
            40,
            None,
            (ExitCode.FAILED, "MaxText stopped without a reason after 40 of 100 steps (in the newest checkpoint)"),
        ),
    ],
)
def test_training_that_returned(completed: int, stop_reason: str | None, expected: tuple[ExitCode, str]) -> None:
    ending = how_it_ended(100, completed, stop_reason)
    assert (ending.code, ending.reason) == expected


def test_data_that_cannot_be_read_is_told_from_data_that_is_at_its_end() -> None:
    """MaxText's words; array_record's has the byte."""
    riegeli = (
        "Corrupted Riegeli/records file: chunk data hash mismatch, chunk at 425837 with length 383; at byte 426220"
    )
    said = f"`next(self.data_iterator)` failed with <class 'RuntimeError'> exception: ({riegeli})."
    assert unreadable_data(said) == riegeli
    assert (
        unreadable_data("You may have run out of training data. Received <class 'StopIteration'> exception: ()") == ""
    )
    assert unreadable_data(riegeli) == riegeli, "where a shard cannot even be opened"


def test_full_disk_is_found_below_other_errors() -> None:
    error = RuntimeError("Checkpointing failed.")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert of_error(error, None).reason == (
        "no space left on the disk: RuntimeError: Checkpointing failed.; the previous checkpoint stands"
    )


def test_of_a_long_message_the_cause_at_its_end_is_kept() -> None:
    """TensorStore's begins with what was written and where, and ends with the system's word."""
    where = "/output/run/checkpoints/8.orbax-checkpoint-tmp/" * 12
    error = ValueError(f'PERMISSION_DENIED: Error writing "count" at "{where}": Read-only file system [30]')
    said = of_error(error, None).reason
    assert said.startswith('the disk cannot be written any more: ValueError: PERMISSION_DENIED: Error writing "count"')
    assert said.endswith(": Read-only file system [30]; the previous checkpoint stands")
    assert len(said) < 520


def test_a_device_without_memory_is_told_from_a_full_disk() -> None:
    error = RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.")
    assert of_error(error, None).reason == f"out of device memory: RuntimeError: {error}"


def test_a_loss_that_is_no_number_says_what_to_change() -> None:
    assert of_error(SystemExit(1), "NaN loss at step 3.").reason == (
        "NaN loss at step 3: lower the learning rate or look at the data"
    )


def test_a_training_whose_supervisor_is_gone_does_not_begin(tmp_path: Path) -> None:
    not_its_parent = str(os.getpid() + 1)
    command = [sys.executable, "-m", "training.trainer", str(tmp_path / "no plan"), not_its_parent]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (ExitCode.FAILED, "")


class _Telling(type(Path())):
    """The path of a plan that tells its process to stop as it is written into the training's command line."""

    def __str__(self) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return super().__str__()


def test_told_to_stop_just_before_the_training_starts_it_is_interrupted(tmp_path: Path) -> None:
    started = HostStatus(Phase.STARTING, 0.0, 0.0, 0, PLAN.steps)
    write_status(tmp_path, started)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        plan = dataclasses.replace(PLAN, index=0, count=1)
        ended = run(plan, _Telling(tmp_path / "plan.json"), os.environ).status
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.phase, ended.exit_code) == (Phase.INTERRUPTED, ExitCode.INTERRUPTED)


def test_the_last_word_is_said_although_the_metrics_find_no_room(tmp_path: Path) -> None:
    """Seen under load: the thread that records metrics had not met the full disk yet, and the training's end did."""
    source = tmp_path / "source.jsonl"
    source.write_text('{"step": 6.0, "learning/loss": 5.0}\n')
    status = HostStatus(Phase.TRAINING, 0.0, 0.0, 7, PLAN.steps)
    said = last_word(
        PLAN,
        Ending(ExitCode.FAILED, Cause.TRAINING, "no space left on the disk: it is full"),
        Observer(tmp_path, source, Path("/dev/full"), status, tokens_per_step=1),
        5,
    )
    assert (said.phase, said.exit_code, said.step) == (Phase.FAILED, ExitCode.FAILED, 7)
    assert said.reason == (
        "no space left on the disk: it is full; the last metrics are not recorded: No space left on device"
    )


def test_numbers_that_are_none_are_why_whatever_broke_beside_them(tmp_path: Path) -> None:
    """MaxText ends itself by them, and Orbax, in the middle of a save, by an executor that is gone."""
    source, record = tmp_path / "source.jsonl", tmp_path / "host-1.jsonl"
    source.write_text('{"step": 6.0, "learning/loss": 5.0}\n{"step": 7.0, "learning/loss": NaN}\n')
    status = HostStatus(Phase.TRAINING, 0.0, 0.0, 8, PLAN.steps)
    broke = of_error(RuntimeError("cannot schedule new futures after shutdown"), None)
    plan = dataclasses.replace(PLAN, data="/data", metrics_record=str(record))
    said = last_word(plan, broke, Observer(tmp_path, source, record, status, tokens_per_step=1), 7)
    assert (said.exit_code, said.cause, said.step) == (ExitCode.REPEATED, Cause.NUMBERS, 8)
    assert said.bad and (said.bad["step"], said.bad["spoiled"]) == (7, 6)
    assert said.reason == (
        "the loss of step 7 is nan (the loss was usually 5): lower the learning rate or look at the data that it read "
        f"({tmp_path}/bad-step-7-host-1.json); `slipway replay` does the step again by itself, "
        "and the next start goes on before checkpoint 6"
    )


def test_cause_is_one_line() -> None:
    assert of_error(ValueError("first\n\n second\nthird\nfourth"), None).reason == "ValueError: first second third"
