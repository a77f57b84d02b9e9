"""The HTTP server below every emulator: on loopback, in threads, until its context is left.

Owns listening, connections that clients keep open, errors of an emulator's own code, which end the test that met
them, and which call a fault hits. Refuses to own what a call and a fault mean: each emulator has a handler of its own.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self


@dataclass(kw_only=True)
class ChosenCalls:
    """The next `times` calls that match, after `skip` that do not: those that a fault hits.

    `held` is set while a call waits; `release` lets it go on: at that moment a test may kill the client.
    """

    method: str = ""
    path: str = ""  # a part of the path with its query
    skip: int = 0
    times: int = 1
    happened: int = 0
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


def next_fault[Fault: ChosenCalls](faults: Iterable[Fault]) -> Fault | None:
    """The first of the faults that match a call, or None; counts down those that skip it."""
    for fault in faults:
        if fault.times and fault.skip:
            fault.skip -= 1
        elif fault.times:
            fault.times -= 1
            fault.happened += 1
            return fault
    return None


class HttpEmulator:
    """Context manager around the server. port: 0 takes a free one."""

    def __init__(self, handler: type[EmulatorHandler], port: int = 0, address: str = "127.0.0.1") -> None:
        self.errors: list[BaseException] = []  # of the emulator itself; leaving the context raises the first
        self.address = address
        self._handler = handler
        self._server = _Server((address, port), handler, self)

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def host(self) -> str:
        """As `host:port`."""
        return f"{self.address}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        self._server.serve_in_a_thread()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if self.errors and error is None:
            raise self.errors[0]

    def listen_also(self) -> Callable[[], None]:
        """At the same address in the network namespace of the calling thread, until what this returns is called."""
        server = _Server((self.address, self.port), self._handler, self)
        server.serve_in_a_thread()
        return server.end

    def serve_forever(self) -> None:
        """Serves in this thread, until `close` is called in another or an exception ends it."""
        self._server.serve_forever()

    def close(self) -> None:
        self._server.end()


class EmulatorHandler(BaseHTTPRequestHandler):
    """Its emulator is `self.server.owner`. A subclass has the methods `do_GET` and so on."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together, and wake the client once
    server: Any

    def handle_expect_100(self) -> bool:
        """At once: curl waits a second for it before it sends a body of more than a megabyte."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def body(self) -> bytes:
        """The request's body; shorter than its Content-Length where the client has gone."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterator[bytes]:
        while line := self.rfile.readline():
            chunk = self.rfile.read(int(line, 16))
            self.rfile.readline()
            if not chunk:
                return
            yield chunk
        raise ConnectionResetError("the client is gone before its last chunk")

    def send(self, status: int, headers: dict[str, str], content: bytes, length: int | None = None) -> None:
        """Sends an answer. length: its Content-Length where that is not the length of `content`."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass  # emulators record their calls


class _Server(ThreadingMixIn, TCPServer):
    """Not http.server.HTTPServer, which looks its own name up in the DNS."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], handler: type[EmulatorHandler], owner: HttpEmulator) -> None:
        self.owner = owner
        self._connections: set[socket.socket] = set()
        self._serves = False
        super().__init__(address, handler)

    def serve_in_a_thread(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def end(self) -> None:
        """Closes every connection, also those that a client keeps open, so that a closed emulator answers nobody."""
        self.shutdown()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        self._serves = True
        super().serve_forever(poll_interval)

    def shutdown(self) -> None:
        if self._serves:  # else it would wait for a loop that never ran
            super().shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):  # the client is gone, or was killed
            self.owner.errors.append(error)
            super().handle_error(request, client_address)
