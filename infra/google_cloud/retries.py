"""When something at Google is tried or looked at again: every pause and every limit of them.

Owns the loop around a call, which Ctrl-C and the resource's deadline end. Refuses to own which failures are worth
another try (api_errors.py).
"""

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import Any

from infra.google_cloud.api import GoogleApi
from infra.google_cloud.api_errors import SilentError, judge
from infra.providers.resource import Context, ResourceError

RETRY_FOR_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_LONGEST_ASKED_S = 300.0  # by a server, as Retry-After
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 5.0
_CANCEL_POLL_S = 0.05


def call[T](context: Context, api: GoogleApi, doing: str, act: Callable[[], T], repeatable: bool = True) -> T:
    """Act, and again where that may help, until RETRY_FOR_S, the deadline or Ctrl-C. Raises ResourceError.

    repeatable: whether a second call does no harm where the first has had its effect and its answer was lost. If not,
    SilentError is raised at once.
    """
    backoff: Any = importlib.import_module("google.api_core.retry.retry_base")
    pauses = backoff.exponential_sleep_generator(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    until = context.now() + RETRY_FOR_S
    while True:
        context.wait(0)
        answer = _begin(act)
        while not wait([answer], _CANCEL_POLL_S).done:
            context.wait(0)
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, ResourceError):
            raise error
        failure = judge(api, doing, error)
        pause = min(failure.after_s, _LONGEST_ASKED_S) + next(pauses)
        lost = isinstance(failure.error, SilentError) and not repeatable
        if lost or not failure.is_transient or context.now() + pause > until:
            raise failure.error from None
        context.wait(pause)


def _begin[T](act: Callable[[], T]) -> Future[T]:
    """In a thread of its own: Ctrl-C does not wait for a server that is silent."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(act())
        except BaseException as error:  # noqa: BLE001 - handed to the caller as it is
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def polls() -> Generator[float]:
    """Pauses between two looks at something that takes seconds, or minutes."""
    seconds = _FIRST_POLL_S
    while True:
        yield jittered(seconds)
        seconds = min(2 * seconds, _LONGEST_POLL_S)


def jittered(seconds: float) -> float:
    """A little longer than asked for, so that many do not come at once."""
    return seconds * random.uniform(1.0, 1.25)  # noqa: S311 - not a secret
