"""`python -m bench.gpu_step OUTPUT [CASES]`: MaxText's train step on the GPU of this machine, case by case.

Needs what hosts with GPUs install (training/locks/pylock.gpu-stable.toml) and one GPU whose memory all cases fit in, an
H200: no test and no bench of this repository has one. What it writes is infra/preview/fit/measured_h200.json, by which
`slipway fit --judge` judges the compiler's count of memory and the roofline. CASES is a file of that form with others.
Each case is a process of its own, which imports while the one before it measures; OUTPUT grows with each.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from training import gpu_environment, maxtext_imports

MEASURED = Path(__file__).parents[1] / "infra" / "preview" / "fit" / "measured_h200.json"
_STEPS, _WARM = 14, 4
_SHARE = "0.93"  # of the card, for nothing else runs there
_GIB = 2**30
_LISTS = ("measured", "swept")  # what judges the compiler and the roofline, and the same with other flags


def main(output: Path, cases: Path = MEASURED) -> int:
    """Every case once more, in the file's order."""
    document = json.loads(cases.read_text())
    asked = [(name, case) for name in _LISTS for case in document[name]]
    document |= {name: [] for name in _LISTS}
    with tempfile.NamedTemporaryFile() as turn, ThreadPoolExecutor(2) as two:
        measured = two.map(lambda each: _apart(each[1], turn.name), asked)
        for (name, _), case in zip(asked, measured, strict=True):
            document[name].append(case)
            output.write_text(json.dumps(document, indent=1) + "\n")
            print(json.dumps(case), flush=True)
    return 0


def _apart(case: dict[str, Any], turn: str) -> dict[str, Any]:
    of_hosts = gpu_environment.flags("", importlib.metadata.version("jaxlib"))
    flags = [*(f"{each.name}={each.value}" for each in of_hosts), *case["flags"]]
    environment = os.environ | {"XLA_FLAGS": " ".join(flags), "XLA_PYTHON_CLIENT_MEM_FRACTION": _SHARE}
    command = [sys.executable, "-m", "bench.gpu_step", "--case", json.dumps(case["training"]), turn]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    said = done.stdout.splitlines()
    return case | (json.loads(said[-1]) if done.returncode == 0 else {"failed": done.returncode})


def measure(training: dict[str, Any], turn: str) -> dict[str, Any]:
    """Seconds and TFLOP/s of a step by MaxText's formula, and the memory in use at most, in GiB.

    turn: a file that is locked by whoever has the GPU.
    """
    import jax
    from flax.core.spmd import logical_axis_rules

    with maxtext_imports.quick():
        from maxtext.trainers.pre_train import train
        from maxtext.utils import maxtext_utils, sharding

    with _step(training, turn) as (config, mesh, step, state):
        with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
            placed = sharding.get_input_data_sharding(config, mesh)
            shaped = maxtext_utils.get_shaped_batch(config, batch_sharding=placed)
            began = time.perf_counter()
            compiled = step.lower(state, shaped).compile()
            compile_s = time.perf_counter() - began
            batch = train.make_synthetic_batch(config, shaped)
            seconds: list[float] = []
            for _ in range(_STEPS):
                began = time.perf_counter()
                state, metrics = compiled(state, batch)
                jax.block_until_ready(metrics)
                seconds.append(time.perf_counter() - began)
        warm = seconds[_WARM:]
        tflops = maxtext_utils.calculate_tflops_training_per_device(config, log=False)[0]
        peak: int = jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
        return {
            "tflops": round(tflops / statistics.median(warm), 1),
            "step_s": round(statistics.median(warm), 4),
            "step_range_s": [round(min(warm), 4), round(max(warm), 4)],
            "steps": len(warm),
            "compile_s": round(compile_s, 1),
            "compiler_gib": round(compiled.memory_analysis().peak_memory_in_bytes / _GIB, 3),
            "peak_gib": round(peak / _GIB, 3),
        }


@contextlib.contextmanager
def _step(training: dict[str, Any], turn: str) -> Iterator[tuple[Any, Any, Any, Any]]:
    """MaxText's settings, its mesh, its train step before it is compiled, and the state that it begins with."""
    import jax
    from flax import nnx
    from maxtext.common import goodput
    from maxtext.configs import pyconfig
    from maxtext.trainers.pre_train import train
    from maxtext.utils import sharding, train_utils

    from training.maxtext_config import command_line

    fcntl.flock(os.open(turn, os.O_RDONLY), fcntl.LOCK_EX)  # until this process ends
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # as MaxText's trainer does
    base = str(Path(pyconfig.__file__).with_name("base.yml"))
    with tempfile.TemporaryDirectory() as scratch:
        settings = training | {
            "hardware": "gpu", "skip_jax_distributed_system": True, "base_output_directory": scratch,
            "run_name": "step", "log_config": False, "enable_checkpointing": False, "dataset_type": "synthetic",
            "steps": _STEPS,
            "enable_goodput_recording": False, "monitor_goodput": False, "jax_cache_dir": "",
        }  # fmt: skip
        config: Any = pyconfig.initialize(["", base, *command_line(settings)])
        recorder = goodput.create_goodput_recorder(config)
        _, _, shardings, _, mesh, *_, state = train_utils.setup_train_loop(config, recorder)
        graph, state = nnx.split(state)
        params, shardings = sharding.maybe_update_params_sharding_with_opt(config, shardings)
        step, _ = train_utils.jit_train_and_eval_step(
            config, graph, mesh, state, shardings, train.train_step, train.eval_step, None, params
        )
        yield config, mesh, step, state


if __name__ == "__main__":
    if sys.argv[1] == "--case":
        print(json.dumps(measure(json.loads(sys.argv[2]), sys.argv[3])))
    else:
        sys.exit(main(*map(Path, sys.argv[1:3])))
