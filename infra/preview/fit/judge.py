"""Whether a train step fits, by who can tell for its platform: the TPU compiler, an estimate for GPUs, nobody. Pure.

Preview, `up` and `slipway fit` ask here. Refuses to own how the compiler is asked (lookup.py, interactive_fit.py) and
what follows of the answer (gate.py).
"""

from __future__ import annotations

from collections.abc import Callable

from infra.preview.fit import gpu_estimate
from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict

JUDGED = ("tpu", "gpu")  # platforms

type Ask = Callable[[CompileRequest], FitVerdict]


def verdict(step: TrainStep, ask: Ask) -> FitVerdict:
    """The verdict on a train step. `ask` gets the TPU compiler's: one that is known already, or a compile's."""
    match step.row.platform:
        case "tpu":
            return ask(step.request)
        case "gpu":
            return gpu_estimate.verdict(step)
        case other:
            return step.request.unknown(f"it cannot be known for {step.row.name}: platform {other} has no judge")


def said(answer: FitVerdict) -> str:
    """A verdict as every command says it."""
    if answer.fits is None:
        return f"unknown: {answer.reason}"
    if answer.fits is False:
        return f"does not fit: {answer.reason}"
    by = f" by an estimate that may be {gpu_estimate.ERROR:.0%} off, no compiler" if answer.estimated else ""
    return f"{answer.memory}{by}"
