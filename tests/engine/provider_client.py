"""A provider plugin as the engine sees it: a process of its own, and its gRPC interface.

For what the provider answers, where an engine would only pass it on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra.providers.server import to_struct, to_values

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Provider:
    stub: Any

    def check(self, token: str, inputs: Mapping[str, Any]) -> list[str]:
        """Sentences on what is wrong with the inputs of a new resource."""
        request = provider_pb2.CheckRequest(urn=_urn(token), news=to_struct(inputs))
        return [failure.reason for failure in self.stub.Check(request).failures]

    def create(self, token: str, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The id and outputs of what is made. Raises grpc.RpcError."""
        answer = self.stub.Create(provider_pb2.CreateRequest(urn=_urn(token), properties=to_struct(inputs)))
        return answer.id, to_values(answer.properties)

    def update(self, token: str, identifier: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs. old: outputs, new: inputs."""
        request = provider_pb2.UpdateRequest(id=identifier, urn=_urn(token), olds=to_struct(old), news=to_struct(new))
        return to_values(self.stub.Update(request).properties)

    def read(self, token: str, identifier: str, outputs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The outputs; None where it is gone."""
        request = provider_pb2.ReadRequest(id=identifier, urn=_urn(token), properties=to_struct(outputs))
        answer = self.stub.Read(request)
        return to_values(answer.properties) if answer.id else None

    def delete(self, token: str, identifier: str, outputs: Mapping[str, Any]) -> None:
        self.stub.Delete(provider_pb2.DeleteRequest(id=identifier, urn=_urn(token), properties=to_struct(outputs)))


def _urn(token: str) -> str:
    return f"urn:pulumi:t::sample::{token}::a"


@contextlib.contextmanager
def provider(module: str, **environment: str) -> Iterator[Provider]:
    """The plugin that this module is, started as an engine starts it. environment: besides what there is."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "127.0.0.1:1"],
        cwd=ROOT,
        env={**os.environ, **environment},
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
