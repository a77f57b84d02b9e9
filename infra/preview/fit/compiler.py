"""One compile in a process of its own: started, limited in memory and time, its phases passed on, its answer read.

Owns the process. Refuses to own the compile (training/aot.py), its environment (infra/host_software/wheelhouses.py
makes it) and what an error means (errors.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.paths import INSTALLED, ROOT
from infra.preview.fit import errors, gpu_target
from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.verdict import FitVerdict, Traffic
from training.xla_flags import DEFAULTS, XLA_FLAGS

PHASES = ("importing", "tracing", "compiling", "reading")
_NUMBERS = ("hbm_gib", "peak_gib", "argument_gib", "temp_gib", "tflops_per_device")
_POLL_S = 0.25
_SAY_EVERY_S = 5.0

type Progress = Callable[[str], None]


@dataclass(frozen=True)
class CompileLimits:
    """`memory_gib` is the resident memory of the compile and what it starts; the largest measured took 4.5."""

    timeout_s: float = 900.0
    memory_gib: float = 12.0


def python_of(environment: str) -> Path | None:
    """The Python of an installed environment, or None."""
    directory = INSTALLED / "env" / environment
    return directory / "bin" / "python" if (directory / ".complete").is_file() else None


def compile_step(request: CompileRequest, python: Path, limits: CompileLimits, progress: Progress) -> FitVerdict:
    """Ask the compiler. Raises OSError where the process cannot be started or its files cannot be written."""
    with tempfile.TemporaryDirectory(prefix="slipway-fit-") as name:
        work = Path(name)
        (work / "request.json").write_text(json.dumps(dataclasses.asdict(request)))
        with (work / "output").open("w") as output:
            child = subprocess.Popen(
                [str(python), "-P", "-m", "training.aot", str(work / "request.json"), str(work / "result.json")],
                cwd=work,
                env=_environment(work, request),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        title = f"{request.model} on {request.size}"
        try:
            stopped = _watch(child, work / "output", limits, lambda phase: progress(f"{title}: {phase}"))
        finally:
            _kill(child)
        if stopped:
            return request.unknown(stopped)
        if not (work / "result.json").is_file():
            return request.unknown(errors.no_answer(child.returncode, (work / "output").read_text()))
        return _verdict(request, json.loads((work / "result.json").read_text()))


# Of XLA where it has no GPU to try kernels on: it takes cuBLAS's, as it does where one is there.
_WITHOUT_GPU = ("--xla_gpu_autotune_level=0", "--xla_gpu_enable_triton_gemm=false")


def _environment(work: Path, request: CompileRequest) -> dict[str, str]:
    """No account, no metadata server, no accelerator; MaxText's own variables (M_...) do not reach it."""
    foreign = ("M_", "XLA_", "PYTHON", "JAX_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else libtpu locks the machine for one process, though no TPU is opened
        "TMPDIR": str(work),
        **_flags(request),
    }


def _flags(request: CompileRequest) -> dict[str, str]:
    if request.gpu:
        return {XLA_FLAGS: " ".join((*request.gpu.flags, *_WITHOUT_GPU))}
    defaults = DEFAULTS["tpu"].items()
    return {name: " ".join(f"{flag}={value}" for flag, value in flags.items()) for name, flags in defaults}


def _watch(child: subprocess.Popen[bytes], output: Path, limits: CompileLimits, progress: Progress) -> str | None:
    """Wait for the child; why it was stopped, or None."""
    began, reported_s = time.monotonic(), -_SAY_EVERY_S
    while child.poll() is None:
        elapsed = time.monotonic() - began
        if elapsed > limits.timeout_s:
            return f"the compile took longer than {limits.timeout_s:.0f} s; raise fit_timeout_s"
        used = resident_gib(child.pid)
        if used > limits.memory_gib:
            return (
                f"the compile took more than {limits.memory_gib:g} GiB of memory ({used:.1f}); "
                f"run `slipway fit` with a higher --memory-gib on a machine that has it"
            )
        if elapsed - reported_s >= _SAY_EVERY_S:
            progress(f"{_phase(output)}, {elapsed:.0f} s")
            reported_s = elapsed
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
    return None


def _phase(output: Path) -> str:
    phases = [line for line in output.read_text(errors="replace").splitlines() if line in PHASES]
    return phases[-1] if phases else "starting"


def resident_gib(pid: int) -> float:
    """Of the process and its children, in GiB; 0 once it has ended."""
    import psutil  # here: every preview imports this module, and few compile

    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return sum(member.memory_info().rss for member in family) / 2**30
    except psutil.Error:
        return 0.0


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _verdict(request: CompileRequest, result: dict[str, Any]) -> FitVerdict:
    # rounded to what is worth keeping, so that a new verdict equals the one that is read from its file later
    numbers: dict[str, float] = {name: round(value, 4) for name in _NUMBERS if (value := result.get(name)) is not None}
    answered = dataclasses.replace(request.unknown(""), **numbers)
    if "error" not in result:
        traffic = tuple(Traffic(**{**sent, "gib": round(sent["gib"], 4)}) for sent in result["collectives"])
        compiled = dataclasses.replace(answered, traffic=traffic, compile_s=result["compile_s"])
        return gpu_target.judged(compiled) if request.gpu else dataclasses.replace(compiled, fits=True)
    refusal = errors.refusal(result["error"], answered.peak_gib, answered.hbm_gib)
    if refusal.certain:
        return dataclasses.replace(answered, fits=False, reason=refusal.reason, keys=refusal.keys)
    return request.unknown(refusal.reason)
