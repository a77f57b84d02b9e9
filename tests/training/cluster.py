"""Hosts of one machine for tests: real launch processes, each a session of its own, and ways to wait for them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.host_status import FILE_NAME, HostStatus, Phase, read_status
from training.run_spec import RunSpec

ROOT = Path(__file__).parents[2]
PATIENCE_VARIABLE = "SLIPWAY_TEST_PATIENCE_S"  # of who makes tests hang on purpose
PATIENCE_S = float(os.environ.get(PATIENCE_VARIABLE, "900"))  # a deadline for a loaded machine, not an expectation
_CACHES = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
# Programs, where tools/setup.sh keeps tools: a fresh clone finds what others have compiled. Each is a few kB, and JAX
# names it by all that it is made of.
COMPILED = Path(os.environ.get("SLIPWAY_CACHE") or Path(_CACHES, "slipway"), "compiled")
# Compiling takes half of a small run's processor time, and LLVM's optimisations most of that; no test needs them.
XLA_FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def free_port() -> int:
    """Of a coordinator, whose next one is free too; below those that the kernel and local stacks take."""
    while True:
        port = random.randrange(10000, 20000, 2)
        with contextlib.suppress(OSError), socket.create_server(("", port)), socket.create_server(("", port + 1)):
            return port


def wait_until(what: str, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.05)


@dataclass
class LaunchedHost:
    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def status(self) -> HostStatus:
        status = read_status(self.directory)
        assert status, self.log
        return status

    @property
    def phase(self) -> Phase | None:
        status = read_status(self.directory)
        return status.phase if status else None

    @property
    def trainer(self) -> int:
        """The process that trains; launch may have another, which keeps the record of a run in a bucket."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        [trainer] = [child for child in children if b"training.trainer" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return int(trainer)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def end(self, timeout_s: float = PATIENCE_S) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill_group()
            raise AssertionError(f"host did not end within {timeout_s} s; its log:\n{self.log[-4000:]}") from None

    def kill_group(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for_step(self, step: int) -> None:
        """Until MaxText has written the metrics of this many steps (sooner seen than in the status)."""
        metrics = self.directory / "maxtext-metrics.jsonl"

        def reached() -> bool:
            assert self.process.poll() is None, f"host ended before step {step}; its log:\n{self.log[-4000:]}"
            lines = metrics.read_text().splitlines() if metrics.exists() else []
            return any("learning/loss" in line and json.loads(line)["step"] >= step for line in lines[-1:])

        wait_until(f"step {step}", reached)


@dataclass
class Cluster:
    """Starts the hosts of a run spec. `directory` holds the hosts' directories and the cache that they share."""

    directory: Path
    cache: Path
    heartbeat_s: int = 20
    standstill_s: int = 60
    options: tuple[str, ...] = ()  # more of them, for launch
    environ: Mapping[str, str] = field(default_factory=dict[str, str])  # of all hosts
    own_environ: Sequence[Mapping[str, str]] = ()  # of each
    python: str = sys.executable  # with MaxText
    launched: list[LaunchedHost] = field(default_factory=list[LaunchedHost])

    def start(
        self, spec: RunSpec, port: int | None = None, environ: Mapping[str, str] | None = None
    ) -> list[LaunchedHost]:
        coordinator = f"127.0.0.1:{port or free_port()}"
        hosts = [self._start_host(spec, index, coordinator, environ or {}) for index in range(spec.hosts)]
        self.launched += hosts
        return hosts

    def run(self, spec: RunSpec, environ: Mapping[str, str] | None = None) -> list[LaunchedHost]:
        """Start the hosts and wait until all have ended."""
        hosts = self.start(spec, environ=environ)
        for host in hosts:
            host.end()
        return hosts

    def own_records(self) -> list[list[dict[str, Any]]]:
        """Of a run in a bucket, of which each host keeps its own: the lines of each host, over all starts."""
        files = sorted(self.directory.glob("host */runs/run/metrics/host-*.jsonl"))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    def clean_up(self) -> None:
        for host in self.launched:
            if host.process.poll() is None:
                host.kill_group()

    def _start_host(self, spec: RunSpec, index: int, coordinator: str, environ: Mapping[str, str]) -> LaunchedHost:
        directory = self.directory / f"host {index}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "run_spec.yaml").write_text(spec.to_yaml())
        (directory / FILE_NAME).unlink(missing_ok=True)
        own = {
            "SLIPWAY_HOST_INDEX": str(index),
            "SLIPWAY_HOST_COUNT": str(spec.hosts),
            "SLIPWAY_COORDINATOR": coordinator,
            **(self.own_environ[index] if self.own_environ else {}),
        }
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    self.python,
                    *launch_arguments(directory, self.cache, self.heartbeat_s, self.standstill_s),
                    *self.options,
                ],
                cwd=ROOT,
                env={**plain_environment(), **self.environ, **own, **environ},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return LaunchedHost(directory, process)


def launch_arguments(directory: Path, cache: Path, heartbeat_s: int, standstill_s: int = 60) -> list[str]:
    """Of the hosts' Python."""
    directories = ["--host-dir", str(directory), "--cache-dir", str(cache)]
    seconds = ["--heartbeat-s", str(heartbeat_s), "--standstill-s", str(standstill_s)]
    return ["-m", "training.launch", str(directory / "run_spec.yaml"), *directories, *seconds]


def plain_environment() -> dict[str, str]:
    """This environment without what would change a training, and with XLA_FLAGS."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "XLA_FLAGS", "JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES")
    kept = (name for name in os.environ if name not in dropped and not name.startswith("SLIPWAY_"))
    return {name: os.environ[name] for name in kept} | {"XLA_FLAGS": XLA_FLAGS}


def losses(output: Path, run_name: str, host: int = 0) -> dict[int, float]:
    """Training loss by step (from 0) of a run's record; a step done twice counts with its last value."""
    lines = record(output, run_name, host)
    return {int(line["step"]): line["learning/loss"] for line in lines if "learning/loss" in line}


def heldout_losses(output: Path, run_name: str, host: int = 0) -> dict[int, float]:
    lines = record(output, run_name, host)
    return {int(line["step"]): line["eval/avg_loss"] for line in lines if "eval/avg_loss" in line}


def record(output: Path, run_name: str, host: int) -> list[dict[str, Any]]:
    lines = (output / run_name / "metrics" / f"host-{host}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
