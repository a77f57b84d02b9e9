"""Whether a train step fits its slice: known, or asked of the compiler and kept.

Owns the order: a verdict that is known, else one compile (others of the same request wait for it), else unknown, with
the reason. Refuses to own the request (compile_request.py), the process (compiler.py), the files (cache.py) and what
follows for preview and `up` (gate.py).
"""

from __future__ import annotations

from pathlib import Path

from infra.paths import WORK
from infra.preview.fit import cache, compiler
from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.compiler import CompileLimits, Progress
from infra.preview.fit.verdict import FitVerdict


def known(request: CompileRequest) -> FitVerdict:
    """The verdict without a compile."""
    return cache.find(request.key) or request.unknown("not compiled yet")


def settle(request: CompileRequest, limits: CompileLimits, progress: Progress, work: Path = WORK) -> FitVerdict:
    """The verdict, compiled for if need be; unknown with the reason where that does not come to an end.

    Where the environment is missing nothing is fetched: `slipway fit` makes it.
    """
    if verdict := cache.find(request.key, work):
        return verdict
    python = compiler.python_of(request.environment)
    if python is None:
        return request.unknown(f"the compiler's environment {request.environment} is not on this machine")
    try:
        with cache.locked(request.key, limits.timeout_s, work) as mine:
            verdict = cache.find(request.key, work)  # of whoever held the lock
            if verdict or not mine:
                return verdict or request.unknown(f"another compile of it takes longer than {limits.timeout_s:.0f} s")
            verdict = compiler.compile_step(request, python, limits, progress)
            if verdict.fits is not None:
                cache.keep(verdict, work)
            return verdict
    except OSError as error:
        return request.unknown(error.strerror or str(error))
