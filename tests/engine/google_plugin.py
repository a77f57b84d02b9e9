"""An executable that the engine takes for Google's plugin: the stand-in's server, under Google's version.

`python -m tests.engine.google_plugin LOG VERSION ENGINE` writes one line into LOG at each start: who started it and
what its environment says of accounts and proxies.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from infra.engine.google_plugin import EXECUTABLE
from infra.providers.proto import grpc, plugin_pb2
from infra.providers.server import serve_plugin
from infra.standins.gcp.server import Server
from infra.standins.gcp.store import STATE_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "GOOGLE_OAUTH_ACCESS_TOKEN")


class GooglesPlugin(Server):
    def __init__(self, version: str) -> None:
        super().__init__(os.environ, os.environ.get(STATE_VARIABLE))
        self._answer = version

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - the protocol's name
        return plugin_pb2.PluginInfo(version=self._answer)


def write_plugin(directory: Path, log: Path, version: str) -> Path:
    """The executable, in this directory."""
    command = f'"{sys.executable}" -u -m tests.engine.google_plugin "{log}" {version}'
    return write_executable(directory, f'PYTHONPATH="{ROOT}" exec {command} "$@"')


def write_executable(directory: Path, command: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / EXECUTABLE
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return path


def starts(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def main(log: str, version: str, engine: str) -> None:
    with Path(log).open("a") as file:
        file.write(json.dumps({"engine": engine} | {name: os.environ.get(name) for name in SHOWN}) + "\n")
    serve_plugin(GooglesPlugin(version), lambda: None)


if __name__ == "__main__":
    main(*sys.argv[1:4])
