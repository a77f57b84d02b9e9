"""Whether a train step fits, by who can tell for its platform: the compiler for TPUs or GPUs, or nobody. Pure.

Preview, `up` and `slipway fit` ask here. Refuses to own how the compiler is asked (lookup.py, interactive_fit.py) and
what follows of the answer (gate.py).
"""

from __future__ import annotations

from collections.abc import Callable

from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict

JUDGED = ("tpu", "gpu")  # platforms

type Ask = Callable[[CompileRequest], FitVerdict]


def verdict(step: TrainStep, ask: Ask) -> FitVerdict:
    """The verdict on a train step. `ask` gets the compiler's: one that is known already, or a compile's."""
    if step.row.platform not in JUDGED:
        return step.request.unknown(f"it cannot be known for {step.row.name}: {step.row.platform} has no compiler")
    if step.row.platform == "gpu" and step.request.gpu is None:
        return step.request.unknown(f"nobody has described the card of {step.row.name} to XLA's compiler")
    return ask(step.request)


def said(answer: FitVerdict) -> str:
    """A verdict as every command says it."""
    if answer.fits is None:
        return f"unknown: {answer.reason}"
    if answer.fits is False:
        return f"does not fit: {answer.reason}"
    return answer.memory
