"""Whether a train step fits: what is asked, what is kept, what is said of it, and what stops. No compiler in here."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra import hardware, paths
from infra.commands.main import app
from infra.paths import ROOT, STACKS
from infra.preview.fit import cache, compiler, errors, interactive_fit, judge, levers, lookup, roofline
from infra.preview.fit.compile_request import CompileRequest, compile_request_of
from infra.preview.fit.compiler import CompileLimits, compile_step
from infra.preview.fit.gate import gate
from infra.preview.fit.measurements import MEASURED, Measured
from infra.preview.fit.train_step import TrainStep, of_stack
from infra.preview.fit.verdict import FitVerdict, Traffic, VerdictError, from_text, to_text
from infra.preview.stack_plan import decide
from infra.runs import run_plan
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import (
    FitCheck,
    Settings,
    SettingsError,
    any_from_file,
    every,
    from_file,
    stack_names,
)
from infra.stack_file.terms import Terms
from infra.targets.local.settings import LocalSettings
from infra.targets.tpu_vm.settings import TpuVmSettings

SIZES = [  # for which a compiler was asked
    name
    for name in stack_names()
    if isinstance(content := any_from_file(name), Settings) and content.row.platform in judge.JUDGED
]
FITS = FitVerdict(
    key="0" * 16,
    topology="v6e-32",
    slices=1,
    model="llama3.1-8b",
    fits=True,
    hbm_gib=31.24,
    peak_gib=7.13,
    argument_gib=2.81,
    temp_gib=4.37,
    compile_s=60.0,
    tflops_per_device=219.1,
    traffic=(Traffic("ici", "fsdp", "all-gather", 30.0), Traffic("dcn", "data", "all-reduce", 1.5)),
)
TOO_LARGE = dataclasses.replace(
    FITS, fits=False, reason="out of memory: 40 of 31", keys=("remat_policy",), peak_gib=40.0, traffic=()
)


def train_step(stack: str = "v6e-32", **training: Any) -> TrainStep:
    return of_stack(stack, training)


# --- what is asked ---


def test_twins_ask_the_same_and_everything_compiled_asks_another() -> None:
    here = train_step().request
    assert here.key == train_step("v6e-32.spot").request.key
    settings = any_from_file("v6e-32")
    assert isinstance(settings, TpuVmSettings)
    other = settings.model_copy(
        update={"steps": 5, "owner": "you", "project": "another-project", "run_name": "x", "fit_timeout_s": 9}
    )
    key = compile_request_of(other, run_plan.of_stack(other)).key
    assert key == here.key, "neither length nor name nor place is compiled"
    changed = [
        train_step(per_device_batch_size=3).request,
        train_step(max_target_length=1024).request,
        train_step(remat_policy="minimal").request,
        train_step(weight_dtype="bfloat16").request,
        train_step(opt_type="sgd").request,
        train_step(ici_fsdp_parallelism=16, ici_data_parallelism=2).request,
        train_step().changed(slices=2).request,
        train_step().changed(accelerator="v6e-64").request,
        dataclasses.replace(here, environment="another lock"),
    ]
    assert len({here.key, *(request.key for request in changed)}) == len(changed) + 1


def test_the_command_and_a_preview_ask_the_same() -> None:
    for stack in SIZES:
        settings = any_from_file(stack)
        assert isinstance(settings, Settings)
        assert train_step(stack).request.key == compile_request_of(settings, run_plan.of_stack(settings)).key


# --- shipped verdicts ---


@pytest.mark.parametrize("stack", SIZES)
def test_every_shipped_size_has_a_committed_verdict_that_it_fits(stack: str) -> None:
    asked = train_step(stack).request
    path = cache.SHIPPED / f"{asked.key}.json"
    assert path.is_file(), f"stale or missing: run `slipway fit --all --ship` and commit {cache.SHIPPED.name}/"
    verdict = from_text(path.read_text(), asked.key)
    assert verdict.fits and verdict.share and verdict.share < 1
    assert (verdict.topology, verdict.slices, verdict.model) == (asked.topology, asked.slices, asked.model)


def test_no_verdict_is_committed_that_no_stack_asks_for() -> None:
    asked = {train_step(stack).request.key for stack in SIZES}
    assert {path.stem for path in cache.SHIPPED.glob("*.json")} == asked


# --- what is kept ---


def test_a_verdict_is_read_as_it_was_written() -> None:
    assert from_text(to_text(FITS), FITS.key) == FITS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        to_text(FITS)[:-30],
        to_text(dataclasses.replace(FITS, key="1" * 16)),
        to_text(FITS).replace('"fits": true', '"fits": "yes"'),
        to_text(FITS).replace('"peak_gib": 7.13', '"peak_gib": null'),
        to_text(FITS).replace('"reason"', '"raeson"'),
        to_text(FITS).replace('"network"', '"netwrok"'),
    ],
)
def test_a_corrupt_entry_is_dropped(tmp_path: Path, text: str) -> None:
    with pytest.raises(VerdictError):
        from_text(text, FITS.key)
    path = cache.keep(FITS, tmp_path)
    path.write_text(text)
    assert cache.find(FITS.key, tmp_path) is None
    assert not path.exists()


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """What is written goes to a device that is always full."""
    partial = cache.directory(tmp_path) / f".{FITS.key}.json.{os.getpid()}"
    partial.parent.mkdir(parents=True)
    partial.symlink_to("/dev/full")
    with pytest.raises(cache.CacheError, match=r"cannot be kept in .*: No space left on device; free some space"):
        cache.keep(FITS, tmp_path)
    assert list(partial.parent.iterdir()) == []


def request(environment: str = "e" * 16) -> CompileRequest:
    return CompileRequest("v6e-8", 1, environment, {"model_name": "llama2-7b"})


def test_without_an_environment_nothing_is_fetched_and_the_reason_said(tmp_path: Path) -> None:
    verdict = lookup.settle(request(), CompileLimits(), print, tmp_path)
    assert verdict.fits is None
    assert "environment eeeeeeeeeeeeeeee is not on this machine" in verdict.reason
    assert not list(tmp_path.rglob("*.json")), "what nobody knows is not kept"


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of `request`, whose Python nobody is to start."""
    binaries = tmp_path / "installed" / "env" / ("e" * 16) / "bin"
    binaries.mkdir(parents=True)
    (binaries.parent / ".complete").touch()
    monkeypatch.setattr(compiler, "INSTALLED", tmp_path / "installed")


def test_a_compile_of_the_same_that_does_not_end_is_said_and_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    with cache.locked(request().key, 0, tmp_path) as mine:
        assert mine
        verdict = lookup.settle(request(), CompileLimits(timeout_s=0), print, tmp_path)
    assert (verdict.fits, verdict.reason) == (None, "another compile of it takes longer than 0 s")
    with cache.locked(request().key, 0, tmp_path) as mine:
        assert mine, "it ends with who holds it"


def test_a_lock_that_cannot_be_written_leaves_it_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch)
    lock = cache.directory(tmp_path) / f"{request().key}.lock"
    lock.mkdir(parents=True)
    verdict = lookup.settle(request(), CompileLimits(), print, tmp_path)
    assert verdict.fits is None
    assert verdict.reason == f"{lock} cannot be written: Is a directory; free some space and run this again"


# --- the process ---


def python_that(tmp_path: Path, code: str) -> Path:
    """An executable in place of the environment's Python, which does as told with REQUEST and RESULT."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\nrequest, result = sys.argv[-2:]\n{code}\n")
    path.chmod(0o755)
    return path


ANSWER = """
answer = {"hbm_gib": 31.24, "tflops_per_device": 84.5, "peak_gib": 9.5, "argument_gib": 9.0, "temp_gib": 1.0,
          "compile_s": 3.0, "collectives": [{"network": "ici", "axis": "fsdp", "operation": "all-gather", "gib": 2.0}]}
open(result, "w").write(json.dumps(answer))
"""


def test_the_answer_of_the_process_is_the_verdict(tmp_path: Path) -> None:
    said: list[str] = []
    verdict = compile_step(
        request(), python_that(tmp_path, "print('compiling', flush=True)" + ANSWER), CompileLimits(), said.append
    )
    assert (verdict.fits, verdict.peak_gib, verdict.sent("ici")) == (True, 9.5, 2.0)
    assert said and said[0].startswith("llama2-7b on v6e-8: ")


@pytest.mark.parametrize(
    ("code", "limits", "reason"),
    [
        ("time.sleep(60)", CompileLimits(timeout_s=0.5), "took longer than 0 s; raise fit_timeout_s"),
        ("x = bytearray(400 << 20); time.sleep(60)", CompileLimits(memory_gib=0.25), "more than 0.25 GiB of memory"),
        ("os.kill(os.getpid(), 9)", CompileLimits(), "killed by signal 9; was the machine out of memory?"),
        ("sys.exit('No module named maxtext')", CompileLimits(), "the environment is not whole"),
        ("sys.exit('OSError: No space left on device')", CompileLimits(), "no space left on the disk"),
        ("sys.exit(3)", CompileLimits(), "ended with code 3 and said: nothing"),
        (
            "open(result, 'w').write(json.dumps({'error': 'XlaRuntimeError: odd'}))",
            CompileLimits(),
            "failed and said: XlaR",
        ),
    ],
)
def test_a_process_that_does_not_answer_leaves_it_unknown(
    tmp_path: Path, code: str, limits: CompileLimits, reason: str
) -> None:
    verdict = compile_step(request(), python_that(tmp_path, code), limits, lambda said: None)
    assert verdict.fits is None
    assert reason in verdict.reason and "\n" not in verdict.reason


def test_an_out_of_memory_error_is_a_verdict_with_numbers(tmp_path: Path) -> None:
    answer = {"error": "JaxRuntimeError: RESOURCE_EXHAUSTED", "hbm_gib": 15.75, "peak_gib": 15.92, "argument_gib": 9.4}
    code = f"open(result, 'w').write(json.dumps({answer!r}))"
    verdict = compile_step(request(), python_that(tmp_path, code), CompileLimits(), lambda said: None)
    assert verdict.fits is False
    assert verdict.reason == (
        "out of memory: the train step wants 15.92 GiB of HBM per device, 15.75 are there (0.17 too many)"
    )
    assert verdict.keys == errors.MEMORY_KEYS


def _settle(installed: str, work: str, log: str) -> None:
    compiler.INSTALLED = Path(installed)  # pyright: ignore[reportConstantRedefinition]
    verdict = lookup.settle(request(), CompileLimits(timeout_s=60), lambda said: None, Path(work))
    with Path(log).open("a") as stream:
        stream.write(f"{verdict.fits}\n")


def test_two_at_once_compile_once(tmp_path: Path) -> None:
    """The second waits for the first, in another process, and takes its answer."""
    binaries = tmp_path / "installed" / "env" / ("e" * 16) / "bin"
    binaries.mkdir(parents=True)
    (binaries.parent / ".complete").touch()
    counted = tmp_path / "compiles"
    python_that(binaries, f"open({str(counted)!r}, 'a').write('x'); time.sleep(1)" + ANSWER)
    arguments = (str(tmp_path / "installed"), str(tmp_path / "work"), str(tmp_path / "log"))
    both = [multiprocessing.get_context("spawn").Process(target=_settle, args=arguments) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert (tmp_path / "log").read_text().split() == ["True", "True"]
    assert counted.read_text() == "x"


def test_a_compile_ends_with_who_waits_for_it(tmp_path: Path) -> None:
    """kill -9 of the preview leaves nothing behind: training/aot.py asks the kernel for it before anything else."""
    code = (ROOT / "training" / "aot.py").read_text()
    assert code.index("prctl(_PR_SET_PDEATHSIG") < code.index("_compile(request, scratch)")


# --- what is said ---


@pytest.mark.parametrize(
    ("error", "sentence", "keys"),
    [
        ("ValueError: Invalid compile topology: v6e-7. Valid topology names: dict_keys([...])",
         "MaxText knows no slice v6e-7; choose another accelerator", ("accelerator",)),
        ("IndivisibleError: ... array axis 0 is partitioned 1024 times, but the dimension size is 384 (full",
         "a dimension of 384 cannot be divided over 1024 devices", ("ici_fsdp_parallelism",)),
    ],
)  # fmt: skip
def test_errors_of_maxtext_become_sentences(error: str, sentence: str, keys: tuple[str, ...]) -> None:
    refusal = errors.refusal(error, None, None)
    assert refusal.certain
    assert sentence in refusal.reason
    assert refusal.keys[: len(keys)] == keys


def test_an_unknown_error_is_no_verdict() -> None:
    refusal = errors.refusal("INTERNAL: something\nnobody has seen", None, None)
    assert (refusal.certain, refusal.reason) == (
        False,
        "the compiler failed and said: INTERNAL: something nobody has seen",
    )


def test_gate() -> None:
    settings = any_from_file("v6e-32")
    assert isinstance(settings, TpuVmSettings)
    unchecked = settings.model_copy(update={"fit": FitCheck.UNCHECKED})
    unknown = dataclasses.replace(FITS, fits=None, reason="not compiled yet")
    assert gate(settings, FITS, buying=True) == ()
    assert gate(unchecked, unknown, buying=True) == ()
    problem = (
        "whether llama3.1-8b fits is unknown: not compiled yet; run `slipway fit v6e-32`, or write `slipway:fit: unch"
    )
    (warning,) = gate(settings, unknown, buying=False)
    assert warning.startswith(f"`up` will refuse: {problem}")
    with pytest.raises(SettingsError, match=re.escape(problem)):
        gate(settings, unknown, buying=True)
    for stack in (settings, unchecked):
        for buying in (True, False):
            with pytest.raises(SettingsError) as stopped:
                gate(stack, TOO_LARGE, buying)
            assert str(stopped.value) == (
                "llama3.1-8b does not fit v6e-32: out of memory: 40 of 31; the largest saving first (`slipway fit "
                "v6e-32 --levers` asks the compiler of each): per_device_batch_size: 1 | accelerator: v6e-64 in "
                "stacks/Pulumi.v6e-32.yaml"
            )
    nobody = judge.verdict(TrainStep(from_file("local")), lookup.known)
    with pytest.raises(SettingsError) as stopped:
        gate(from_file("local"), nobody, buying=True)
    assert str(stopped.value).endswith(
        "it cannot be known for cpu-8: cpu has no compiler; if you know that it does, write `slipway:fit: "
        "unchecked` in stacks/Pulumi.local.yaml"
    )
    refused = dataclasses.replace(TOO_LARGE, reason="no such slice", keys=("accelerator",), peak_gib=None)
    with pytest.raises(SettingsError, match=r"no such slice; change accelerator in stacks/Pulumi.v6e-32.yaml"):
        gate(settings, refused, buying=False)


def test_the_block_has_the_verdict_and_an_unknown_one_stops_only_up() -> None:
    settings = any_from_file("v6e-32")
    assert isinstance(settings, TpuVmSettings)
    shown = "\n".join(decide(settings).notices)
    assert "  fit     7." in shown and " of 31.24 GiB HBM (" in shown
    large = settings.model_copy(update={"training": {**settings.training, "per_device_batch_size": 7}})
    shown = "\n".join(decide(large).notices)
    assert "  fit     unknown: not compiled yet" in shown
    assert "`up` will refuse: whether llama3.1-8b fits is unknown" in shown
    real = large.model_copy(update={"project": "real-project"})
    with pytest.raises(SettingsError, match="is unknown: not compiled yet; run `slipway fit v6e-32`"):
        decide(real, buying=True)
    assert decide(real.model_copy(update={"fit": FitCheck.UNCHECKED}), buying=True)


class OwnMachine(LocalSettings):
    """A stack that nobody pays for, on accelerators."""

    def check_place(self) -> None:
        """Any will do."""


def test_a_stack_that_costs_nothing_is_judged_too_where_its_platform_has_a_judge() -> None:
    keys = ("stack", "target", "accelerator", "steps", "data", "training")
    values: dict[str, Any] = {key: getattr(any_from_file("v6e-32"), key) for key in keys} | {"target": "local"}
    assert any(notice.startswith("fit: 7.") for notice in decide(OwnMachine(**values), buying=True).notices)
    larger = values["training"] | {"per_device_batch_size": 7}
    with pytest.raises(SettingsError, match=r"llama3.1-8b fits is unknown: not compiled yet; run `slipway fit v6e-32`"):
        decide(OwnMachine(**values | {"training": larger}), buying=True)
    assert decide(OwnMachine(**values | {"training": larger, "fit": "unchecked"}), buying=True)
    of_gpus: dict[str, Any] = values | {"accelerator": "h100-1"}
    with pytest.raises(SettingsError, match=r"llama3.1-8b fits is unknown: not compiled yet; run `slipway fit v6e-32`"):
        decide(OwnMachine(**of_gpus), buying=True)
    assert not any("fit:" in notice for notice in decide(from_file("local"), buying=True).notices)


# --- estimates ---


def test_the_roofline_is_the_longest_of_what_overlaps() -> None:
    row = hardware.find("v6e-32")
    estimate = roofline.estimate(FITS, row, "full")
    assert estimate and row.peak_bf16_tflops and row.ici_gbytes_per_s and row.nic_gbits_per_host
    assert estimate.seconds["compute"] == pytest.approx(219.1 * 4 / 3 / 918)
    assert estimate.seconds["HBM"] == pytest.approx(2 * (2.81 + 4.37) * 2**30 / 1638e9)
    assert estimate.seconds["ICI"] == pytest.approx(30 * 2**30 / 400e9)
    assert estimate.seconds["DCN"] == pytest.approx(1.5 * 2**30 / (row.nic_gbits_per_host / 8 / 4 * 1e9))
    assert estimate.bound == "compute" and estimate.mfu == pytest.approx(0.75)
    assert roofline.estimate(TOO_LARGE, row, "full") is None


def test_an_unknown_bandwidth_is_named_and_left_out() -> None:
    estimate = roofline.estimate(FITS, dataclasses.replace(hardware.find("v6e-32"), hbm_gbytes_per_s=None), "full")
    assert estimate and estimate.unknown == ("HBM",)
    assert str(estimate).endswith("; no bandwidth known of HBM")
    assert roofline.estimate(FITS, dataclasses.replace(hardware.find("v6e-32"), peak_bf16_tflops=None), "full") is None


def test_dollars_for_a_billion_tokens() -> None:
    assert roofline.usd_per_billion_tokens(1.0, 1_000_000, 3600.0) == pytest.approx(1000.0)
    assert roofline.usd_per_billion_tokens(1.0, 1_000_000, None) is None


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: f"{measured.accelerator} {measured.title}")
def test_no_measurement_is_faster_than_the_roofline(measured: Measured) -> None:
    """From committed verdicts: `slipway fit --judge --ship` writes them."""
    asked = measured.step
    verdict = cache.find(asked.request.key)
    assert verdict and (cache.JUDGED / f"{asked.request.key}.json").is_file(), "run slipway fit --judge --ship"
    ran = dataclasses.replace(verdict, fits=True)  # whatever share of its memory was asked about
    estimate = roofline.estimate(ran, asked.row, asked.remat_policy)
    assert estimate
    predicted = estimate.tflops_per_device / estimate.step_s
    slowest = 0.39 if measured.training.get("attention") == "dot_product" else 0.45
    assert slowest * predicted < measured.tflops <= predicted


def test_levers_are_ranked_by_what_they_would_save() -> None:
    asked = train_step("v6e-32", remat_policy="minimal", per_device_batch_size=8)
    ranked = levers.ranked(asked, dataclasses.replace(TOO_LARGE, peak_gib=40.0, argument_gib=3.0))
    assert [lever.title for lever in ranked] == [
        "per_device_batch_size: 4", "remat_policy: save_dot_except_mlpwi", "accelerator: v6e-64",
    ]  # fmt: skip
    state_bound = levers.ranked(asked, dataclasses.replace(TOO_LARGE, peak_gib=40.0, argument_gib=39.0))
    assert state_bound[0].title == "accelerator: v6e-64"
    largest = levers.ranked(train_step("v6e-256", per_device_batch_size=1), TOO_LARGE)
    assert {lever.title for lever in largest} == {
        "max_target_length: 1024", "slices: 2 with dcn_fsdp_parallelism: 2",
    }  # fmt: skip


def test_a_mesh_that_fixes_its_devices_gets_no_other_slice_as_a_lever() -> None:
    asked = train_step("v6e-32", ici_fsdp_parallelism=32, per_device_batch_size=1, max_target_length=256)
    assert [lever.title for lever in levers.ranked(asked, TOO_LARGE)] == []


# --- the command ---


def slipway(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fit", *arguments])
    return done.exit_code, done.output


def test_the_command_answers_from_what_is_known() -> None:
    code, shown = slipway("v6e-32", "--json")
    document = json.loads(shown)
    assert code == 0
    assert (document["fits"], document["hbm_gib"], document["levers"]) == (True, 31.24, [])
    assert 7 < document["peak_gib"] < 8 and document["estimate"]["step_s"] > 0
    code, shown = slipway("--all", "--json")
    assert code == 0
    assert [row["stack"] for row in json.loads(shown)] == [each.stack for each in every(Terms)]


@pytest.fixture
def two_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """v6e-32, which fits, and v6e-8, which does not; where their verdicts are committed, with one that nobody asks for.

    And local, which has no accelerator.
    """
    stacks, committed = tmp_path / "stacks", tmp_path / "verdicts"
    for folder in (stacks, committed):
        folder.mkdir()
    for stack in ("v6e-32", "v6e-8", "local"):
        shutil.copy(STACKS / f"Pulumi.{stack}.yaml", stacks)
    fits, too_large = (train_step(stack).request.key for stack in ("v6e-32", "v6e-8"))
    shutil.copy(cache.SHIPPED / f"{fits}.json", committed)
    for key in (too_large, "0" * 16):
        cache.keep(dataclasses.replace(TOO_LARGE, key=key), into=committed)
    monkeypatch.setattr(paths, "STACKS", stacks)
    monkeypatch.setattr(stack_settings, "STACKS", stacks)
    monkeypatch.setattr(cache, "SHIPPED", committed)
    return committed


def test_a_stack_that_does_not_fit_has_no_speed_and_fails_the_table(two_stacks: Path) -> None:
    code, shown = slipway("--all", "--json")
    assert code == 1
    large, small = json.loads(shown)
    assert [large[column] for column in ("stack", "fits", "HBM %")] == ["v6e-32", "yes", "23%"]
    assert large["$/1B tokens"].startswith("at least $")
    assert [small[column] for column in ("stack", "chips", "fits", "HBM")] == ["v6e-8", "8", "NO", "40.00 of 31.24 GiB"]
    assert {small[column] for column in ("step", "MFU", "bound", "$/1B tokens")} == {"unknown"}
    assert len(list(two_stacks.iterdir())) == 3, "a table changes nothing"


def test_what_is_shipped_is_what_fits_and_nothing_else_stays(two_stacks: Path) -> None:
    fits = two_stacks / f"{train_step('v6e-32').request.key}.json"
    before = fits.read_text()
    assert slipway("--all", "--ship")[0] == 1
    assert list(two_stacks.iterdir()) == [fits]
    assert fits.read_text() == before


def test_the_judge_compares_every_measurement_with_a_roofline_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = tmp_path / "judged"
    shutil.copytree(cache.JUDGED, judged)
    committed = {path.name: path.read_text() for path in judged.iterdir()}
    (judged / f"{'0' * 16}.json").write_text(to_text(FITS))
    monkeypatch.setattr(cache, "JUDGED", judged)
    code, shown = slipway("--judge", "--ship", "--json")
    rows = json.loads(shown)
    assert code == 0
    assert [(row["accelerator"], row["what"]) for row in rows] == [(each.accelerator, each.title) for each in MEASURED]
    assert {row["error"][0] for row in rows} <= {"-"}, "a roofline is never slower than what was measured"
    assert {path.name: path.read_text() for path in judged.iterdir()} == committed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one of: a stack, --accelerator, --all, --judge"),
        (["v6e-32", "--all"], "name one of: a stack"),
        (["v6e-32", "--slices", "2"], "--slices goes with --accelerator"),
        (["--all", "--levers"], "--set and --levers with a stack or --accelerator"),
        (["v6e-99"], "stack 'v6e-99' has no file"),
        (["local"], "trains on this machine"),
        (["--accelerator", "v6e-33"], "accelerator 'v6e-33' is not in infra/hardware.yaml; nearest:"),
        (["--accelerator", "cpu-8"], "accelerator 'cpu-8' is this machine's; `slipway fit` is about TPUs and GPUs"),
        (["--accelerator", "v6e-8"], "which model? give --set model_name="),
        (
            ["--accelerator", "v6e-8", "--set", "model_name=llama9-7b"],
            "training.model_name is 'llama9-7b'; nearest of 87 ",
        ),
        (["v6e-32", "--set", "per_devise_batch_size=3"], "nearest: training.per_device_batch_size"),
        (["v6e-32", "--set", "remat_policy"], "write --set KEY=VALUE"),
        (["v6e-32", "--set", "ici_fsdp_parallelism=7"], "is 7, but there are 32 devices"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], message: str) -> None:
    code, shown = slipway(*arguments)
    assert code == 2
    assert message in " ".join(shown.split())


def test_the_exit_code_is_the_verdict_and_unknown_is_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["--accelerator", "a3-mega-2", "--set", "model_name=llama2-7b"]
    for answer, code, said in (
        (FITS, 0, "a3-mega-2: fits, "),
        (TOO_LARGE, 1, "a3-mega-2: does not fit: "),
        (FITS.__class__("k", "a3-mega-2", 1, "m", None, "the compile took too long"), 3, "a3-mega-2: unknown: the com"),
    ):
        monkeypatch.setattr(interactive_fit, "answer", lambda *_, answer=answer: answer)
        exit_code, shown = slipway(*asked)
        assert (exit_code, said in " ".join(shown.split())) == (code, True), shown


def test_a_stack_of_gpus_has_a_compilers_word() -> None:
    """Committed, as of every shipped stack: `slipway fit --all --ship`."""
    code, shown = slipway("eks-h100-2")
    assert code == 0
    assert re.search(r"on h100-2: fits, \d+\.\d\d of 67\.24 GiB HBM", " ".join(shown.split())), shown
    assert "GiB per device and step along fsdp (DCN, all-gather)" in shown


def test_what_nobody_can_judge_is_unknown_and_says_so() -> None:
    step = TrainStep(from_file("local"))
    verdict = judge.verdict(step, lambda request: FITS)
    assert judge.said(verdict) == f"unknown: it cannot be known for {step.row.name}: cpu has no compiler"
    assert verdict.memory == "HBM unknown"


def test_importing_what_a_preview_needs_does_not_import_a_compiler() -> None:
    code = (
        "import sys, infra.targets.tpu_vm; print([name for name in ('jax', 'maxtext', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
