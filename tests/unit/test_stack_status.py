"""What the day-2 command says, from what hosts say."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from infra.operate.live_view import follow, summary
from infra.operate.stack_status import cells, duration, losses, stack_status, status_of
from infra.paths import StackPaths
from infra.targets.hosts import Hosts, HostView, below
from infra.targets.local import host_directory
from infra.targets.local.hosts import LocalHosts
from infra.targets.phases import ABSENT
from tests.unit.test_prepared_data import prepared
from training.data.identity import read_manifest
from training.host_status import HostStatus, Phase, write_status
from training.run_spec import DataSpec, RunSpec

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
    assert cells(status.hosts[0])[:7] == (
        "host 0",
        "training",
        "step 5/10",
        "",
        "loss 3.250",
        "7,000 tokens/s",
        "ETA 1m01s",
    )
    assert duration(7500) == "2h05m"


class OfOneHost(Hosts):
    """Whose only host is given, and what its record has of it."""

    def __init__(self, stack: str, view: HostView | None, platform: str, recorded: HostView | None = None) -> None:
        super().__init__(stack)
        self._view, self._platform, self._recorded = view, platform, recorded

    def states(self) -> Sequence[HostView]:
        return [self._view] if self._view else ()

    def left_behind(self) -> Sequence[HostView]:
        return [self._recorded] if self._recorded else ()

    def run_spec(self) -> RunSpec | None:
        return RunSpec(self.stack, "run", self._platform, 1, 1, 8, 10, "gs://ours", None, {})


@pytest.mark.parametrize(
    ("stack", "platform", "said"),
    [
        ("v6e-32", "tpu", "7,000 tokens/s, 0.125 s a step, 459 TFLOP/s a device, MFU 50.0%"),  # 918 of a chip
        (
            "gke-tpu7x-8",
            "tpu",
            "7,000 tokens/s, 0.125 s a step, 459 TFLOP/s a device, MFU 39.8%",
        ),  # 2,307 of a chip, which has two devices
        ("eks-h100-2", "gpu", "7,000 tokens/s, 0.125 s a step, 459 TFLOP/s a device, MFU 46.4%"),
        ("local", "cpu", "7,000 tokens/s, 0.125 s a step"),  # of a processor no source says a peak
        ("no-such-stack", "tpu", "7,000 tokens/s, 0.125 s a step"),
    ],
)
def test_a_host_that_says_its_flops_has_an_mfu_by_the_peak_of_its_stacks_row(
    stack: str, platform: str, said: str
) -> None:
    trained = dataclasses.replace(HOST, step_s=0.125, tflops_per_s=459.0)
    (view,) = status_of(OfOneHost(stack, trained, platform)).hosts
    assert cells(view)[5] == said
    ended = replace(trained, phase="finished")
    (left,) = status_of(OfOneHost(stack, None, platform, ended)).hosts
    assert left == replace(view, phase="finished"), "the record has it when the host is gone"
    assert cells(left)[5].startswith("7,000 tokens/s, 0.125 s a step, 459 TFLOP/s a device")
    (pod,) = status_of(
        OfOneHost(stack, replace(ended, step=None, step_s=None, tflops_per_s=None), platform, ended)
    ).hosts
    assert (pod.step, pod.step_s, pod.mfu) == (5, 0.125, view.mfu), "and when it cannot say it itself"


def test_a_host_in_which_nothing_ends_says_since_when_and_no_eta() -> None:
    still = dataclasses.replace(HOST, eta_s=61.0, still_since=datetime(2026, 11, 25, 3, 4, 5).timestamp())
    assert cells(still)[6] == "nothing has ended since 03:04:05"


def test_what_would_be_lost_now_is_said_of_a_host_that_trains() -> None:
    saved = dataclasses.replace(HOST, phase="training", step=5, saved=3)
    assert cells(saved)[3] == "2 steps unsaved"
    assert cells(dataclasses.replace(saved, phase="finished"))[3] == ""


def test_json_has_each_hosts_fields_and_what_its_target_alone_knows_side_by_side() -> None:
    (row,) = json.loads(json.dumps(stack_status("s", [HOST]).to_json()))["hosts"]
    known = {"index", "phase", "step", "steps", "loss", "tokens_per_s", "eta_s", "pid", "reason"}  # since 0.1.0
    later = {"slice", "name", "bundle", "age_s", "still_since", "saved", "started_by", "step_s", "tflops_per_s", "mfu"}
    assert row.keys() == known | later
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


# --- what watch shows ---


def deployed(paths: StackPaths, data: DataSpec | None = None, losses: list[dict[str, float]] | None = None) -> RunSpec:
    """One host that has trained to the end, 10 steps, and what it logged."""
    fields = {"per_device_batch_size": 1, "max_target_length": 8}
    spec = RunSpec("s", "run", "cpu", 1, 1, 2, 10, str(paths.runs), data, fields)
    paths.host(0).mkdir(parents=True)
    (paths.host(0) / host_directory.RUN_SPEC).write_text(spec.to_yaml())
    record = {"index": 0, "count": 1, "bundle": "0" * 16}
    record |= dict.fromkeys(("coordinator", "artifacts", "root", "cache"), "")
    (paths.host(0) / host_directory.RECORD).write_text(json.dumps(record))
    write_status(paths.host(0), HostStatus(Phase.FINISHED, started=1.0, updated=2.0, step=10, steps=10, loss=2.5))
    metrics = paths.runs / "run" / "metrics"
    metrics.mkdir(parents=True)
    (metrics / "host-0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in losses or []))
    return spec


def watched(paths: StackPaths, terminal: bool = False) -> tuple[list[str], int]:
    """Lines on the console, and where the summary begins."""
    written = io.StringIO()
    follow(LocalHosts("s", paths), Console(file=written, force_terminal=terminal, color_system=None, width=100))
    lines = written.getvalue().splitlines()
    (ended,) = [at for at, line in enumerate(lines) if line.endswith("s finished: step 10 of 10")]
    return lines, ended


def test_on_a_terminal_each_host_has_a_line_above_the_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    deployed(StackPaths(tmp_path))
    lines, ended = watched(StackPaths(tmp_path), terminal=True)
    _, _, last = "\n".join(lines[:ended]).rpartition("host 0")
    of_host, bar, left = last.splitlines()[:3]
    assert of_host.split() == ["finished", "step", "10/10", "loss", "2.500"]
    assert (bar.split()[0], bar.split()[-1]) == ("s", "10/10")
    assert left.startswith("Ctrl-C leaves training running")


def test_without_a_terminal_a_host_has_a_plain_line_for_each_phase(tmp_path: Path) -> None:
    deployed(StackPaths(tmp_path))
    lines, ended = watched(StackPaths(tmp_path))
    assert lines[:ended] == ["s host 0 · finished · step 10/10 · loss 2.500"]
    assert f"record       {tmp_path / 'runs' / 'run' / 'record.json'}" in lines[ended:]
    assert not [line for line in lines if "Ctrl-C" in line]


def test_a_stack_without_hosts_says_how_to_start_them(tmp_path: Path) -> None:
    said = summary(LocalHosts("s", StackPaths(tmp_path)), stack_status("s", []), 80)
    assert said.plain == "stack 's' has no hosts; start them with: make up STACK=s"


@pytest.mark.parametrize(
    ("entropy", "comparison"),
    [
        (3.0, ": 0.50 below the unigram entropy of the same split (3.000)"),
        (2.0, ": 0.50 above the unigram entropy of the same split (2.000)"),
        (None, ""),  # without a tokenizer nobody has counted
    ],
)
def test_the_held_out_loss_is_compared_with_what_frequencies_alone_reach(
    tmp_path: Path, entropy: float | None, comparison: str
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("some text\n")
    data = prepared(tmp_path, tmp_path / "corpus")
    manifest = read_manifest(data)
    heldout = replace(manifest.heldout, unigram_entropy_nats=entropy)
    (data / "manifest.json").write_text(replace(manifest, heldout=heldout).to_json())
    paths = StackPaths(tmp_path / "s")
    logged: list[dict[str, float]] = [{"step": 8, "learning/loss": 2.6}, {"step": 9, "eval/avg_loss": 2.5}]
    deployed(paths, DataSpec(str(data), data.name, 1), logged)
    said = f"held-out loss 2.500 nats per token after step 10{comparison}"
    lines, ended = watched(paths)
    assert lines[lines.index(said, ended) + 1] == "", "as below each part of the summary"
    (data / "manifest.json").unlink()
    lines, ended = watched(paths)
    assert not [line for line in lines[ended:] if line.startswith("held-out loss")], "the text is gone"
    assert [line for line in lines[ended:] if line.startswith("training loss 2.600 -> 2.600")]
