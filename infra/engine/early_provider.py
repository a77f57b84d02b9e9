"""Has the engine start our provider while the program still imports its own modules: both take equally long.

Owns one call to a function of the provider that does nothing. Without it the engine starts the provider at the first
resource, and a preview waits for it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import grpc
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor

READY = "slipway:index:ready"  # infra/providers/server.py answers it


def begin() -> None:
    """Returns at once."""
    threading.Thread(target=_ask, args=(get_monitor(),), daemon=True).start()


def _ask(monitor: Any) -> None:
    # A provider that cannot start is said by the engine at the first resource.
    with contextlib.suppress(grpc.RpcError):
        monitor.Invoke(resource_pb2.ResourceInvokeRequest(tok=READY))
