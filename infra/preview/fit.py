"""Whether a stack's train step fits its slice: known, or asked of the TPU compiler and kept.

Owns the order: a verdict that is known, else one compile (others of the same question wait for it), else unknown, with
the reason. Refuses to own the question (fit_request.py), the process (fit_compile.py), the files (fit_cache.py) and
what follows for preview and `up` (fit_gate.py).
"""

from __future__ import annotations

from pathlib import Path

from infra.host_software import compile_environment
from infra.paths import WORK
from infra.preview import fit_cache, fit_compile
from infra.preview.fit_compile import Limits, Progress
from infra.preview.fit_request import FitRequest, fit_request
from infra.preview.verdict import Verdict
from infra.settings import Settings
from training.run_spec import RunSpec

NOT_ASKED = "not compiled yet"


def request_of(settings: Settings, spec: RunSpec) -> FitRequest:
    return fit_request(spec, settings.row, compile_environment(settings, spec.platform).id)


def known(request: FitRequest, work: Path = WORK) -> Verdict:
    """The verdict without a compile; where there is none, unknown with what to do."""
    return fit_cache.find(request.key, work) or request.unknown(NOT_ASKED)


def settle(request: FitRequest, limits: Limits, progress: Progress, work: Path = WORK) -> Verdict:
    """The verdict, compiled for if need be; unknown with the reason where that does not come to an end.

    Where the environment is missing nothing is fetched: `slipway fit` makes it.
    """
    found = fit_cache.find(request.key, work)
    if found:
        return found
    python = fit_compile.python_of(request.environment)
    if python is None:
        return request.unknown(f"the compiler's environment {request.environment} is not on this machine")
    try:
        with fit_cache.locked(request.key, limits.timeout_s, work) as mine:
            found = fit_cache.find(request.key, work)  # by whoever held the lock
            if found or not mine:
                return found or request.unknown(f"another compile of it takes longer than {limits.timeout_s:.0f} s")
            verdict = fit_compile.compile_step(request, python, limits, progress)
            if verdict.fits is not None:
                fit_cache.keep(verdict, work)
            return verdict
    except OSError as error:
        return request.unknown(error.strerror or str(error))
