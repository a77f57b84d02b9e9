"""What the day-2 command says, from what hosts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.operate.report import ABSENT, losses, stack_report
from infra.operate.watch import cells, duration
from infra.targets.local.host_directory import HostRecord, HostState
from training.host_status import HostStatus, Phase


def host(index: int, phase: str, step: int = 5, reason: str = "") -> HostState:
    record = HostRecord(index, 2, "127.0.0.1:1", "/store", "0" * 16, "/installed", "/cache", 42, 0.0)
    status = HostStatus(
        Phase.TRAINING, started=0, updated=0, step=step, steps=10, loss=3.25, tokens_per_s=7000.4, eta_s=61
    )
    return HostState(Path("/h"), record, status, phase, reason)


@pytest.mark.parametrize(
    ("phases", "whole"),
    [
        ([], ABSENT),
        (["training", "training"], "training"),
        (["compiling", "training"], "compiling"),
        (["finished", "training"], "training"),
        (["finished", "finished"], "finished"),
        (["failed", "lost"], "failed"),
        (["training", "lost"], "lost"),
        (["interrupted", "interrupted"], "interrupted"),
    ],
)
def test_phase_of_the_stack(phases: list[str], whole: str) -> None:
    assert stack_report("s", [host(i, phase) for i, phase in enumerate(phases)]).phase == whole


def test_the_stack_is_as_far_as_its_slowest_host() -> None:
    report = stack_report("s", [host(0, "training", 7), host(1, "training", 5)])
    assert (report.step, report.steps, report.running) == (5, 10, True)


def test_the_reason_is_the_failed_hosts_own() -> None:
    report = stack_report("s", [host(0, "lost", reason="killed"), host(1, "failed", reason="disk full")])
    assert report.reason == "host 1 failed: disk full"


def test_a_host_line() -> None:
    report = stack_report("s", [host(0, "training")])
    assert cells(report.hosts[0])[:6] == (
        "host 0",
        "training",
        "step 5/10",
        "loss 3.250",
        "7,000 tokens/s",
        "ETA 1m01s",
    )
    assert duration(7500) == "2h05m"


def test_a_step_that_ran_twice_counts_as_it_ran_last() -> None:
    seen = losses(
        [
            {"step": 0, "learning/loss": 9.0},
            {"step": 1, "learning/loss": 8.0},
            {"step": 1, "learning/loss": 7.5},
            {"step": 1, "eval/avg_loss": 7.0},
        ]
    )
    assert seen.train == ((0, 9.0), (1, 7.5))
    assert seen.heldout == ((1, 7.0),)
