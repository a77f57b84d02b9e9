"""Google asked outside of the engine, as our provider's resources ask it: for commands, and for a stack's guard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from infra.providers.resource import Context, ResourceError
from infra.targets.errors import TargetError


@contextmanager
def asking(say: Callable[[str], None], timeout_s: float) -> Generator[Context]:
    """What a call gets in place of the engine's context. Raises TargetError for what Google refuses."""
    try:
        yield Context("", time.monotonic() + timeout_s, threading.Event(), lambda _: None, say)
    except ResourceError as error:
        raise TargetError(str(error)) from None
