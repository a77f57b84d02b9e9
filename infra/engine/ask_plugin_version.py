"""`python -m infra.engine.ask_plugin_version EXECUTABLE SECONDS`: starts a plugin and asks its version.

Prints one JSON object: version, a sentence of what it did, and whether it would do the same again. The executable may
be anything, so it is ended, with whatever it has started, once it has answered or the time is over.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

from google.protobuf import empty_pb2

from infra.providers.proto import grpc, provider_pb2_grpc

_ENGINE = "127.0.0.1:1"  # nobody: a plugin calls its engine only when it has something to say
_MOST_OF_A_LINE = 200


def ask(executable: str, patience_s: float) -> dict[str, Any]:
    end = time.monotonic() + patience_s
    try:
        plugin = subprocess.Popen(
            [executable, _ENGINE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return _answer("", f"it does not start ({error.strerror})")
    with plugin:
        try:
            return _version(_first_line(plugin, end), end)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(plugin.pid, signal.SIGKILL)


def _first_line(plugin: subprocess.Popen[bytes], end: float) -> str | None:
    """The first line, or as much of it as was printed before the output ended. None where nothing came in time."""
    assert plugin.stdout
    descriptor, line = plugin.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in line and len(line) < _MOST_OF_A_LINE:
            if not selector.select(max(end - time.monotonic(), 0)):
                return None
            more = os.read(descriptor, _MOST_OF_A_LINE)
            if not more:
                break
            line += more
    return line.partition(b"\n")[0].decode(errors="replace").strip()


def _version(line: str | None, end: float) -> dict[str, Any]:
    if line is None:
        return _answer("", "it printed no port in time", certain=False)
    if not line.isdecimal():
        return _answer("", f"it printed {line[:60]!r} instead of a port" if line else "it printed no port and ended")
    channel = grpc.insecure_channel(f"127.0.0.1:{line}", options=[("grpc.enable_http_proxy", 0)])
    try:
        stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        left = max(end - time.monotonic(), 0.1)
        info = stub.GetPluginInfo(empty_pb2.Empty(), timeout=left, wait_for_ready=True)
    except grpc.RpcError as error:
        code = getattr(error, "code", lambda: None)()
        late = code is grpc.StatusCode.DEADLINE_EXCEEDED
        return _answer("", "it does not answer as a plugin in time" if late else f"it answers {code}", certain=not late)
    finally:
        channel.close()
    version = str(info.version).removeprefix("v")
    return _answer(version, f"it answers as version {version}" if version else "it answers without a version")


def _answer(version: str, sentence: str, certain: bool = True) -> dict[str, Any]:
    return {"version": version, "sentence": sentence, "certain": certain}


if __name__ == "__main__":
    print(json.dumps(ask(sys.argv[1], float(sys.argv[2]))))
