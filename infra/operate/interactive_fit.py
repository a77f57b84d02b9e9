"""A verdict for a person who waits: the environment is made where there is none, and progress is shown."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

from infra.host_software.derive import compile_environment
from infra.preview.fit import compiler, gpu_estimate, lookup
from infra.preview.fit.compiler import Limits, Progress
from infra.preview.fit.train_step import Question
from infra.preview.fit.verdict import Verdict


class AskError(RuntimeError):
    """The compiler cannot be asked on this machine; one sentence."""


def answer(question: Question, limits: Limits, progress: Progress | None = None) -> Verdict:
    """Of the compiler for a TPU, estimated for a GPU. Raises AskError where no environment can be made."""
    if question.row.platform != "tpu":
        return gpu_estimate.verdict(question)
    found = lookup.known(question.request)
    if found.fits is not None:
        return found
    if compiler.python_of(question.request.environment) is None:
        _make_environment(question)
    if progress:
        return lookup.settle(question.request, limits, progress)
    with shown() as say:
        return lookup.settle(question.request, limits, say)


@contextmanager
def shown() -> Generator[Progress]:
    """A live line on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda said: None
        return
    with console.status("asking the TPU compiler") as line:
        yield line.update


def _make_environment(question: Question) -> None:
    """As hosts install it, from the wheelhouse, which is built if it is not there."""
    wheelhouses = importlib.import_module("infra.host_software.wheelhouses")  # on demand: it costs every command 0.3 s
    try:
        wheelhouses.environment(compile_environment(question.settings, "tpu"))
    except wheelhouses.ERRORS as error:
        raise AskError(f"the compiler's environment cannot be made: {error}") from None
