"""A verdict for a person who waits: the environment is made where there is none, and progress is shown."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager, nullcontext

from rich.console import Console

from infra.host_software.derive import compile_environment
from infra.preview.fit import compiler, judge, lookup
from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.compiler import CompileLimits, Progress
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict
from infra.sentences import SentenceError


class AskError(SentenceError):
    """The compiler cannot be asked on this machine; one sentence."""


def answer(step: TrainStep, limits: CompileLimits, progress: Progress | None = None) -> FitVerdict:
    """Raises AskError where the compiler has to be asked and no environment for it can be made."""

    def ask(request: CompileRequest) -> FitVerdict:
        verdict = lookup.known(request)
        if verdict.fits is not None:
            return verdict
        if compiler.python_of(request.environment) is None:
            _make_environment(step)
        with nullcontext(progress) if progress else shown() as show:
            return lookup.settle(request, limits, show)

    return judge.verdict(step, ask)


@contextmanager
def shown() -> Generator[Progress]:
    """A live line on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda phase: None
        return
    with console.status("asking the compiler") as line:
        yield line.update


def _make_environment(step: TrainStep) -> None:
    """As hosts install it, from the wheelhouse, which is built if it is not there."""
    wheelhouses = importlib.import_module("infra.host_software.wheelhouses")  # on demand: it costs every command 0.3 s
    try:
        wheelhouses.environment(compile_environment(step.workload, step.row.platform))
    except wheelhouses.ERRORS as error:
        raise AskError(f"the compiler's environment cannot be made: {error}") from None
