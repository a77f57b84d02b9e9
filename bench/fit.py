"""`slipway fit` against MaxText's own `train_compile` with the same flags, in turn; repeats; all stacks; hard cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from bench.record import Figure, figure
from infra import hardware
from infra.paths import ROOT
from infra.preview.fit import cache, compiler
from infra.preview.fit.compiler import CompileLimits
from infra.preview.fit.interactive_fit import answer
from infra.preview.fit.train_step import TrainStep, of_accelerator
from infra.stack_file.settings import stack_names
from training.maxtext_config import command_line

_PAIRS = 3
_REPEATS = 9
_7B = {"model_name": "llama2-7b", "per_device_batch_size": 1, "max_target_length": 2048, "remat_policy": "full"}
_405B = _7B | {"model_name": "llama3.1-405b"}


@dataclass(frozen=True)
class Case:
    """A train step that just fits or just does not."""

    accelerator: str
    fits: bool
    training: dict[str, Any]
    slices: int = 1
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def step(self) -> TrainStep:
        return of_accelerator(hardware.find(self.accelerator), self.slices, self.training | self.more)


BORDERLINE = (
    Case("v5e-8", True, _7B),
    Case("v5e-8", False, _7B, more={"per_device_batch_size": 2}),
    *(Case("v5e-16", True, _7B, more={"per_device_batch_size": batch}) for batch in (1, 4, 6, 8)),
    Case("v5e-4", False, _7B),
    Case("v6e-256", False, _405B),
    Case("v6e-256", True, _405B, 2, {"dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 1}),
)


def figures() -> list[Figure]:
    step = of_accelerator(hardware.find("v6e-32"), 1, _7B)
    answer(step, CompileLimits())  # makes the environment where there is none
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(_PAIRS):
        (cache.directory() / f"{step.request.key}.json").unlink()
        ours.append(_slipway(*_arguments(step)))
        theirs.append(_train_compile(step))
    repeats = [_slipway("v6e-32") for _ in range(_REPEATS)]
    added = [_added_to_preview() for _ in range(_REPEATS)]
    right = [answer(case.step, CompileLimits()).fits is case.fits for case in BORDERLINE]
    minutes, gib = _all_cold()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return [
        figure("fit_of_train_compile", ratios, "x", "<= 1.05", seconds=[ours, theirs]),
        figure("fit_repeat", repeats, "s", "<= 2"),
        figure("fit_added_to_preview", added, "s", "<= 0.3"),
        figure("fit_borderline_right", [sum(right)], f"of {len(right)}", f">= {len(right)}"),
        figure("fit_all_cold", [minutes], "min", "<= 25", stacks=len(stack_names())),
        figure("fit_all_memory", [gib], "GiB", "<= 6"),
    ]


def _arguments(step: TrainStep) -> list[str]:
    fields = [part for key, value in step.workload.training.items() for part in ("--set", f"{key}={value}")]
    return ["--accelerator", step.row.name, *fields]


def _slipway(*arguments: str) -> float:
    began = time.perf_counter()
    command = [str(ROOT / ".venv" / "bin" / "slipway"), "fit", *arguments]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - began


def _train_compile(step: TrainStep) -> float:
    """MaxText's own command, as its documentation has it, with the arguments that ours gives it."""
    python = compiler.python_of(step.request.environment)
    assert python
    with tempfile.TemporaryDirectory() as scratch:
        arguments = step.request.arguments | {
            "compile_topology": step.request.topology,
            "compile_topology_num_slices": step.request.slices,
            "base_output_directory": scratch,
            "jax_cache_dir": f"{scratch}/jax",
            "run_name": "fit",
            "log_config": False,
            "enable_checkpointing": False,
            "dataset_type": "synthetic",
        }
        (base,) = python.parents[1].glob("lib/*/site-packages/maxtext/configs/base.yml")
        module = "maxtext.trainers.pre_train.train_compile"
        command = [str(python), "-P", "-m", module, str(base), *command_line(arguments)]
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "PYTHONPATH": ""}
        began = time.perf_counter()
        subprocess.run(command, cwd=scratch, env=environment, capture_output=True, check=True)
        return time.perf_counter() - began


_ADDED = """
import json, time
from infra.runs import run_plan
from infra.stack_file import settings as stack_settings
from infra.host_software.derive import host_software
settings = stack_settings.from_file("v6e-32")
spec = run_plan.run_spec(settings, "/", None)
began = time.perf_counter()
from infra.preview.fit import lookup, roofline
from infra.preview.fit.compile_request import compile_request_of
from infra.preview.fit.compiler import CompileLimits
verdict = lookup.settle(compile_request_of(settings, spec), CompileLimits(), print)
str(roofline.estimate(verdict, settings.row, "full"))
print(json.dumps({"seconds": time.perf_counter() - began, "fits": verdict.fits}))
"""


def _added_to_preview() -> float:
    """Importing and asking, in a process that has what a preview has anyway."""
    done = subprocess.run([sys.executable, "-c", _ADDED], cwd=ROOT, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["fits"]
    return result["seconds"]


def _all_cold() -> tuple[float, float]:
    """Minutes and GiB of `slipway fit --all` that knows nothing: neither committed verdicts nor this machine's."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".slipway") as name:
        code = (
            "from pathlib import Path; from infra.preview.fit import cache; from infra.commands.main import main; "
            f"cache.SHIPPED = cache.JUDGED = Path({name!r}); cache.directory = lambda work=None: Path({name!r}); main()"
        )
        began, most = time.perf_counter(), 0.0
        whole = subprocess.Popen([sys.executable, "-c", code, "fit", "--all"], cwd=ROOT, stdout=subprocess.PIPE)
        while whole.poll() is None:
            most = max(most, compiler.resident_gib(whole.pid))
            time.sleep(1)
        assert whole.returncode == 0
        return (time.perf_counter() - began) / 60, most
