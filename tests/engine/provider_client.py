"""A provider plugin as the engine sees it: a process of its own, and its gRPC interface.

For what the provider answers, where an engine would only pass it on.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra.providers.server import to_struct

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Provider:
    stub: Any

    def check(self, token: str, inputs: Mapping[str, Any]) -> list[str]:
        """Sentences on what is wrong with the inputs of a new resource."""
        request = provider_pb2.CheckRequest(urn=f"urn:pulumi:t::sample::{token}::a", news=to_struct(inputs))
        return [failure.reason for failure in self.stub.Check(request).failures]


@contextlib.contextmanager
def provider(module: str) -> Iterator[Provider]:
    """The plugin that this module is, started as an engine starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "127.0.0.1:1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        port = process.stdout.readline().strip()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Provider(provider_pb2_grpc.ResourceProviderStub(channel))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
