"""The engine's protocol messages, without the Pulumi SDK around them.

`import pulumi` costs 0.8 s on two cores and the server needs none of it, so the packages above `pulumi.runtime.proto`
are entered in `sys.modules` unexecuted. Only the provider process does this; the program imports Pulumi as usual.
"""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any


def _enter_unexecuted() -> None:
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the pulumi package is missing from this environment; run `make setup`")
    for package, below in (("pulumi", ""), ("pulumi.runtime", "/runtime")):
        module = types.ModuleType(package)
        module.__path__ = [spec.submodule_search_locations[0] + below]
        sys.modules[package] = module


if "pulumi" not in sys.modules:
    _enter_unexecuted()
    # grpc imports its asyncio half at the end of its own import: a third of what it costs, and the server has threads.
    sys.modules["grpc.aio"] = types.ModuleType("grpc.aio")

import grpc  # noqa: E402 - after its asyncio half is entered
from pulumi.runtime.proto import (  # noqa: E402 - after the packages above are entered
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)

# Pulumi ships the same message under another file name, and a process cannot have both: Google's clients need this one.
status_pb2: Any = importlib.import_module("google.rpc.status_pb2")

if not getattr(sys.modules["grpc.aio"], "__file__", None):  # Google's clients want it after all, when they are called
    del sys.modules["grpc.aio"]
    delattr(grpc, "aio")

__all__ = ["engine_pb2", "engine_pb2_grpc", "grpc", "plugin_pb2", "provider_pb2", "provider_pb2_grpc", "status_pb2"]
