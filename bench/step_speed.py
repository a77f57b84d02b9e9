"""Steps under training.launch against stock MaxText: two processes each, the same fields, mesh and flags.

Both are watched from here in the same way: the moment at which their log says that a step is done, so a step's time
ends when its loss was read back. The first steps are left out. Pairs alternate their order, so a drift of the machine
cancels.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.record import Figure, figure
from infra.paths import ROOT
from tests.training.cluster import free_port
from training.maxtext_config import HostFiles, command_line, maxtext_arguments
from training.run_spec import MaxTextValue, RunSpec

HOSTS, DEVICES_PER_HOST = 2, 2
STEPS, PAIRS = 200, 7
_FIRST_STEPS = 10
_STOCK_PORT = 1234  # hard-coded in MaxText 0.2.5 for hardware=cpu
_TIMEOUT_S = 1800
_STEP = re.compile(rb"completed step: (\d+)")

_MODEL: dict[str, MaxTextValue] = {
    "per_device_batch_size": 2,
    "max_target_length": 128,
    "base_emb_dim": 128,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 4,
    "base_mlp_dim": 256,
    "base_num_decoder_layers": 2,
    "head_dim": 32,
    "vocab_size": 2048,
    "attention": "dot_product",
    "checkpoint_period": 100,
    "save_checkpoint_on_start": False,
    "enable_tensorboard": False,
    "ici_fsdp_parallelism": HOSTS * DEVICES_PER_HOST,
}


@dataclass(frozen=True)
class Timing:
    """Seconds of the steps after the first ones, by host 0's log, and of the whole run."""

    steps_s: float
    wall_s: float


def figures(steps: int = STEPS, pairs: int = PAIRS) -> list[Figure]:
    """Speed relative to stock MaxText, in steps and in whole runs; needs the hosts' Python in SLIPWAY_HOST_PYTHON."""
    python = os.environ["SLIPWAY_HOST_PYTHON"]
    ours: list[Timing] = []
    stock: list[Timing] = []
    for pair in range(pairs):
        order = [(_ours, ours), (_stock, stock)]
        for run, timings in order if pair % 2 == 0 else reversed(order):
            with tempfile.TemporaryDirectory() as directory:
                timings.append(run(python, _spec(Path(directory), steps), Path(directory)))
    own_step_s, stock_step_s = ([timing.steps_s / (steps - _FIRST_STEPS) for timing in side] for side in (ours, stock))
    return [
        figure(
            "step_speed_vs_stock",
            [other.steps_s / own.steps_s for own, other in zip(ours, stock, strict=True)],
            "x",
            ">= 0.98",
            steps=steps,
            own_step_s=own_step_s,
            stock_step_s=stock_step_s,
        ),
        figure(
            "wall_speed_vs_stock",
            [other.wall_s / own.wall_s for own, other in zip(ours, stock, strict=True)],
            "x",
            "",
            own_wall_s=[timing.wall_s for timing in ours],
            stock_wall_s=[timing.wall_s for timing in stock],
        ),
    ]


def _spec(directory: Path, steps: int) -> RunSpec:
    output = str(directory / "out")
    return RunSpec("bench", "run", "cpu", 1, HOSTS, DEVICES_PER_HOST, steps, output, None, _MODEL)


def _ours(python: str, spec: RunSpec, directory: Path) -> Timing:
    (directory / "run_spec.yaml").write_text(spec.to_yaml())
    port = free_port()
    commands: list[list[str]] = []
    environments: list[dict[str, str]] = []
    for index in range(HOSTS):
        options = ["--host-dir", str(directory / str(index)), "--cache-dir", str(directory / "cache")]
        commands.append([python, "-m", "training.launch", str(directory / "run_spec.yaml"), *options])
        environments.append(
            {
                "SLIPWAY_HOST_INDEX": str(index),
                "SLIPWAY_HOST_COUNT": str(HOSTS),
                "SLIPWAY_COORDINATOR": f"127.0.0.1:{port}",
            }
        )
    return _watch(commands, environments, spec.steps)


def _stock(python: str, spec: RunSpec, directory: Path) -> Timing:
    commands: list[list[str]] = []
    environments: list[dict[str, str]] = []
    for index in range(HOSTS):
        files = HostFiles(str(directory / f"metrics-{index}.jsonl"), str(directory / "cache" / "jax"))
        arguments = command_line(maxtext_arguments(spec, files, None))
        commands.append([python, "-m", "maxtext.trainers.pre_train.train", *arguments])
        environments.append(
            {
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES_PER_HOST}",
                "JAX_COORDINATOR_ADDRESS": "127.0.0.1",
                "JOB_INDEX": "0",
                "JOB_COMPLETION_INDEX": str(index),
                "PROCESSES_IN_JOB": str(HOSTS),
                "JAX_PROCESS_COUNT": str(HOSTS),
            }
        )
    with socket.create_server(("", _STOCK_PORT)):
        pass  # says at once that something else holds the port
    return _watch(commands, environments, spec.steps)


def _watch(commands: Sequence[list[str]], environments: Sequence[dict[str, str]], steps: int) -> Timing:
    """Run the processes to their end and time host 0's steps by its log."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "XLA_FLAGS", "JAX_PLATFORMS")
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
    began = time.monotonic()
    running = [
        subprocess.Popen(
            command, cwd=ROOT, env=inherited | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
        for command, environ in zip(commands, environments, strict=True)
    ]
    logs: list[dict[int, float]] = [{} for _ in running]
    tails: list[list[bytes]] = [[] for _ in running]
    readers = [
        threading.Thread(target=_read, args=(process, log, tail))
        for process, log, tail in zip(running, logs, tails, strict=True)
    ]
    for reader in readers:
        reader.start()
    codes = [process.wait(_TIMEOUT_S) for process in running]
    wall_s = time.monotonic() - began
    for reader in readers:
        reader.join()
    if any(codes) or len(logs[0]) != steps:
        text = b"".join(tails[0][-30:]).decode(errors="replace")
        raise RuntimeError(f"{commands[0]} ended with {codes} after {len(logs[0])} of {steps} steps:\n{text}")
    return Timing(logs[0][steps - 1] - logs[0][_FIRST_STEPS - 1], wall_s)


def _read(process: subprocess.Popen[bytes], log: dict[int, float], tail: list[bytes]) -> None:
    assert process.stdout
    for line in process.stdout:
        if found := _STEP.search(line):
            log[int(found[1])] = time.monotonic()
        tail.append(line)


if __name__ == "__main__":
    for measured in figures(*(int(word) for word in sys.argv[1:3])):
        print(measured.to_json())
