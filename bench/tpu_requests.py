"""Queued resources against the emulated TPU API: 32 slices against one, calls while waiting, Ctrl-C, memory.

Through the real engine and provider, but for the calls of an hour's waiting: there the clock is the emulator's.
Not run on real hardware.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.preview import ratios
from bench.record import Figure, figure, reaches
from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, Timings, TpuApi
from infra.providers.resource import ResourceError
from tests.engine.clone import Clone
from tests.engine.project import until
from tests.engine.tpu_cloud import PROJECT, emulated, write
from tests.unit.tpu_stack import Stack, wanted

REPETITIONS = 5
ONE, MANY, SLICES = "v6e-8", "v6e-8x32", 32
SILENT = Timings(0, 0, 0, None, 0, 0, 0, 0)  # everything is there at once, but no host ever reports: `up` waits


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        clone = Clone.make(Path(name) / "clone")
        clone.run("python", "-m", "compileall", "-q", "infra", "training")
        for stack in (ONE, MANY):
            write(clone, f"{stack}.bench", like=stack, project=PROJECT)
        with emulated(Path(name), [ONE, MANY]):
            pairs = [(_life(clone, f"{ONE}.bench"), _life(clone, f"{MANY}.bench")) for _ in range(REPETITIONS)]
        with emulated(Path(name), [MANY], SILENT) as api:
            waits = [_interrupted(clone, f"{MANY}.bench", api) for _ in range(REPETITIONS)]
    ones, many = zip(*pairs, strict=True)
    ended, memory = zip(*waits, strict=True)
    return [
        figure("tpu_up_and_destroy_32_slices_vs_1", ratios(list(many), list(ones)), "ratio", "<= 2"),
        _calls("tpu_calls_per_minute_without_room", _hour_of(_no_room)),
        _calls("tpu_calls_per_minute_32_silent_slices", _hour_of(_hosts_are_silent)),
        figure("tpu_ctrl_c_to_prompt", ended, "s", "<= 2"),
        figure("tpu_provider_memory_32_slices", memory, "MB", "<= 300"),
    ]


def _life(clone: Clone, stack: str) -> float:
    start = time.perf_counter()
    for verb in ("up", "destroy"):
        done = clone.pulumi(verb, stack)
        if done.returncode:
            raise RuntimeError(f"{verb} of {stack} failed: {done.stdout}{done.stderr}")
    return time.perf_counter() - start


def _interrupted(clone: Clone, stack: str, api: TpuApi) -> tuple[float, float]:
    """Seconds from Ctrl-C to the prompt while `up` waits, and the provider's peak resident memory in MB."""
    command = clone.command("pulumi", "up", "--stack", stack, "--yes", "--skip-preview", "--non-interactive")
    asked = len(api.calls_of("GetGuestAttributes"))
    engine = subprocess.Popen(
        command,
        cwd=clone.directory,
        env=clone.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: len(api.calls_of("GetGuestAttributes")) > asked, "up waits for hosts")
    memory = sum(_peak(each) for each in _providers(engine.pid))
    start = time.perf_counter()
    os.killpg(engine.pid, signal.SIGINT)  # as a terminal does, to all in the foreground
    engine.wait(60)
    took = time.perf_counter() - start
    clone.pulumi("destroy", stack)
    return took, memory / 1e6


def _providers(engine: int) -> list[psutil.Process]:
    children = psutil.Process(engine).children(recursive=True)
    return [child for child in children if "infra.providers" in child.cmdline()]


def _peak(process: psutil.Process) -> int:
    """Bytes (VmHWM of proc(5))."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found, "Linux says the peak"
    return int(found[1]) * 1024


# --- an hour of waiting ---


def _no_room(cloud: Cloud) -> Stack:
    for zone in wanted().zones:
        cloud.levers.stockout(zone, "v6e")
    return Stack(wanted(), cloud.transitions.advance)


def _hosts_are_silent(cloud: Cloud) -> Stack:
    return Stack(wanted(nodes=SLICES), cloud.transitions.advance, hosts=SLICES)


@dataclass(frozen=True)
class _Hour:
    """Of one request: calls in each minute of the cloud's clock but the first, which asks for it; seconds of pauses."""

    per_minute: list[float]
    pauses: list[float]


def _hour_of(scene: Callable[[Cloud], Stack]) -> _Hour:
    at: list[float] = []
    pauses: list[float] = []
    with TpuApi(Cloud(SILENT)) as api:
        os.environ[TPU] = api.url
        stack = scene(api.cloud)
        began = api.cloud.ledger.now_s

        def advance(seconds: float) -> None:
            at.extend([api.cloud.ledger.now_s - began] * (len(api.calls) - len(at)))
            pauses.append(seconds)
            api.advance(seconds)

        stack.advance, stack.wait_deadline_s = advance, 3600
        with contextlib.suppress(ResourceError):  # its deadline
            stack.up()
    minutes = [float(sum(60 * minute <= each < 60 * minute + 60 for each in at)) for minute in range(1, 60)]
    return _Hour(minutes, pauses)


def _calls(name: str, hour: _Hour) -> Figure:
    mean = statistics.mean(hour.per_minute)
    detail = {"range": [min(hour.per_minute), max(hour.per_minute)], "n": len(hour.per_minute)}
    detail["pauses_s"] = [min(hour.pauses), max(hour.pauses)]
    return Figure(name, mean, "1/min", "<= 6", reaches(mean, "<= 6"), detail)
