"""What the day-2 command says, from what hosts say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra.operate.live_view import summary
from infra.operate.stack_status import cells, duration, losses, stack_status
from infra.paths import StackPaths
from infra.targets.hosts import HostView, below
from infra.targets.local import host_directory
from infra.targets.local.hosts import LocalHosts
from infra.targets.phases import ABSENT
from training.run_spec import RunSpec

HOST = HostView(
    index=0, slice=0, name="host-0", phase="training", reason="", bundle="0" * 16, age_s=1.5,
    step=5, steps=10, loss=3.25, tokens_per_s=7000.4, eta_s=61, detail={"pid": 42},
)  # fmt: skip


def host(index: int, phase: str, step: int = 5, reason: str = "") -> HostView:
    return replace(HOST, index=index, phase=phase, step=step, reason=reason)


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
    assert stack_status("s", [host(i, phase) for i, phase in enumerate(phases)]).phase == whole


def test_the_stack_is_as_far_as_its_slowest_host() -> None:
    status = stack_status("s", [host(0, "training", 7), host(1, "training", 5)])
    assert (status.step, status.steps, status.running) == (5, 10, True)


def test_the_reason_is_the_failed_hosts_own() -> None:
    status = stack_status("s", [host(0, "lost", reason="killed"), host(1, "failed", reason="disk full")])
    assert status.reason == "host 1 failed: disk full"


def test_a_host_line() -> None:
    status = stack_status("s", [host(0, "training")])
    assert cells(status.hosts[0])[:6] == (
        "host 0",
        "training",
        "step 5/10",
        "loss 3.250",
        "7,000 tokens/s",
        "ETA 1m01s",
    )
    assert duration(7500) == "2h05m"


def test_json_has_each_hosts_fields_and_what_its_target_alone_knows_side_by_side() -> None:
    (row,) = json.loads(json.dumps(stack_status("s", [HOST]).to_json()))["hosts"]
    known = {"index", "phase", "step", "steps", "loss", "tokens_per_s", "eta_s", "pid", "reason"}  # since 0.1.0
    assert row.keys() == known | {"slice", "name", "bundle", "age_s"}
    assert (row["pid"], row["eta_s"], row["age_s"]) == (42, 61, 1.5)


@pytest.mark.parametrize("bucket", ["gs://bucket", "gs://bucket/", "/a/directory"])
def test_location_below_another_keeps_its_scheme(bucket: str) -> None:
    """The incident: as a Path, `gs://bucket` became `gs:/bucket`."""
    assert below(bucket, "run", "checkpoints") == f"{bucket.rstrip('/')}/run/checkpoints"


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


def test_the_summary_of_a_run_without_held_out_text_says_nothing_of_it(tmp_path: Path) -> None:
    paths = StackPaths(tmp_path)
    spec = RunSpec(
        "s", "run", "cpu", 1, 1, 2, 10, str(paths.runs), None, {"per_device_batch_size": 1, "max_target_length": 8}
    )
    paths.host(0).mkdir(parents=True)
    (paths.host(0) / host_directory.RUN_SPEC).write_text(spec.to_yaml())
    metrics = paths.runs / "run" / "metrics"
    metrics.mkdir(parents=True)
    lines = [{"step": step, "learning/loss": 9.0 - step} for step in range(5)]
    (metrics / "host-0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    said = summary(LocalHosts("s", paths), stack_status("s", [host(0, "interrupted")]), 80).plain
    assert said.startswith("s interrupted at step 5 of 10\n")
    assert "training loss 9.000 -> 5.000 nats per token, 7,000 tokens/s" in said
    assert "training loss, nats per token" in said
    assert "held-out" not in said
