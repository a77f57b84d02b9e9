"""What the hosts of a run tell each other of their ends: one host's end is every host's, at once and by its name.

A host that stays is in a collective or a barrier with one that cannot go on: Orbax's commit waits 1,200 s. So each
supervisor holds a connection to host 0's, at the port after the coordinator's, and what one says all hear; one whose
connection breaks without a word, and is not made anew within RETURN_S, is gone. Host 0's *supervisor* has the
switchboard, so that a training which is frozen, killed or holds the interpreter lock takes nothing with it. Owns the
words, the lines that carry them (JSON) and the connections. Refuses to own what a word leads to (supervisor.py) and
hosts that vanish without closing anything: JAX's heartbeats notice those. Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import socketserver
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, cast

from training.endings import Cause, Ending
from training.exit_codes import ExitCode

RETURN_S = 3.0  # a connection that broke on its way is made anew within it
RETRY_S = 0.25
FAREWELL_S = 10.0  # at most, until all that were there have heard and left


@dataclass(frozen=True)
class Word:
    """What a host says at its end. `for_all`: the others cannot go on either. `at`: where its training was then."""

    host: int
    for_all: bool
    ending: Ending
    step: int  # steps that were done
    at: str

    def told(self) -> Ending:
        """How the training of another host ends by it."""
        if self.ending.cause is Cause.LOST_HOST:
            return self.ending  # which names the host, and is not its own word
        return dataclasses.replace(self.ending, reason=f"host {self.host}: {self.ending.reason}")


def port(coordinator: str) -> int:
    """Where host 0's supervisor listens."""
    return int(coordinator.rpartition(":")[2]) + 1


class Peers:
    """One host's ear and mouth; a context, which opens and closes both. `heard` is called once, on another thread."""

    def __init__(self, index: int, count: int, coordinator: str, heard: Callable[[Word], None]) -> None:
        self._index, self._count, self._heard = index, count, heard
        name = coordinator.rpartition(":")[0].strip("[]")
        self._local = name in ("127.0.0.1", "localhost", "::1")
        self._address = ("127.0.0.1" if index == 0 else name, port(coordinator))
        self._switchboard: _Switchboard | None = None
        self._connection: socket.socket | None = None
        self._start = uuid.uuid4().hex  # another process of the same host is another start
        self._board = ""  # the same of the switchboard
        self._said: Word | None = None
        self._words: dict[int, Word] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="slipway-peers", daemon=True)

    def __enter__(self) -> Peers:
        if self._count > 1:
            if self._index == 0:
                self._switchboard = _Switchboard(self._address[1], self._local)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Host 0 leaves last, for the others hear through it."""
        if self._said:
            self._wait(lambda: self._index in self._words or not self._connection, RETURN_S)
        if self._switchboard:
            self._switchboard.close(FAREWELL_S)
        with self._changed:
            self._closed = True
            if self._connection:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def say(self, word: Word) -> None:
        """To all, this one included, now or once connected."""
        with self._changed:
            self._said = word
            self._send()

    def verdict(self, timeout_s: float) -> Word | None:
        """The first word of another host by which this one's training ends too; waits for it."""
        self._wait(lambda: self._verdict() is not None, timeout_s if self._count > 1 else 0.0)
        return self._verdict()

    def everyone(self, timeout_s: float) -> dict[int, Word]:
        """The last words of all hosts, or of those that have spoken by then."""
        self._wait(lambda: len(self._words) == self._count, timeout_s)
        with self._changed:
            return dict(self._words)

    def _wait(self, what: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(what, timeout_s)

    def _verdict(self) -> Word | None:
        return next((word for host, word in self._words.items() if host != self._index and word.for_all), None)

    def _listen(self) -> None:
        """Until closed: connect, hear, and where the connection breaks make it anew."""
        broke: float | None = None  # when; None before the first connection
        while not self._closed:
            with contextlib.suppress(OSError), socket.create_connection(self._address, timeout=RETURN_S) as connection:
                connection.sendall(_line({"host": self._index, "start": self._start}))
                lines = connection.makefile("rb")
                board = json.loads(lines.readline() or "{}").get("board", "")
                if self._board in ("", board) and board:
                    self._board, broke = board, None
                    connection.settimeout(None)
                    self._hear_all(connection, lines)
                    broke = time.monotonic()
            if 0 in self._words:
                return  # host 0 has left in order
            if broke is not None and time.monotonic() - broke > RETURN_S and not self._closed:
                self._hear(_gone(0))
                return
            time.sleep(RETRY_S)

    def _hear_all(self, connection: socket.socket, lines: IO[bytes]) -> None:
        _keep_alive(connection)
        with self._changed:
            self._connection = connection
            self._send()
        try:
            for line in lines:
                self._hear(_word(json.loads(line)))
        except (OSError, ValueError):
            return  # it broke, maybe in the middle of a line
        finally:
            with self._changed:
                self._connection = None
                self._changed.notify_all()

    def _hear(self, word: Word) -> None:
        with self._changed:
            first = self._verdict() is None
            self._words.setdefault(word.host, word)
            self._changed.notify_all()
            verdict = self._verdict() if first else None
        if verdict:
            self._heard(verdict)

    def _send(self) -> None:
        if self._connection and self._said:
            with contextlib.suppress(OSError):  # _listen sees it too, and sends again
                self._connection.sendall(_line(dataclasses.asdict(self._said)))


class _Switchboard:
    """Host 0's: passes each word on to all, those that come later included."""

    def __init__(self, port: int, local: bool) -> None:
        self._name = uuid.uuid4().hex
        self._starts: dict[int, str] = {}
        self._lines: dict[int, socket.socket] = {}
        self._words: dict[int, Word] = {}
        self._changed = threading.Condition()
        board = self

        class Line(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    board._attend(self.connection, cast(IO[bytes], self.rfile))

        self._server = _Server(("127.0.0.1" if local else "", port), Line)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="slipway-board", daemon=True).start()

    def close(self, timeout_s: float) -> None:
        """Once all that were connected have left, host 0 excepted."""
        with self._changed:
            self._changed.wait_for(lambda: not set(self._lines) - {0}, timeout_s)
        self._server.shutdown()
        self._server.server_close()

    def _attend(self, connection: socket.socket, lines: IO[bytes]) -> None:
        """One host, from its first line to the end of its connection."""
        hello = json.loads(lines.readline())
        host = int(hello["host"])
        if self._starts.setdefault(host, hello["start"]) != hello["start"]:
            self._pass_on(_gone(host))  # begun anew, while the others go on; it is let in when they begin anew too
            return
        _keep_alive(connection)
        with self._changed:
            self._lines[host] = connection
            connection.sendall(_line({"board": self._name}))
            for word in self._words.values():
                connection.sendall(_line(dataclasses.asdict(word)))
        try:
            for line in lines:
                self._pass_on(_word(json.loads(line)))
        finally:
            self._left(host, connection)

    def _left(self, host: int, connection: socket.socket) -> None:
        with self._changed:
            if self._lines.get(host) is connection:
                del self._lines[host]
            self._changed.notify_all()
            back = self._changed.wait_for(lambda: host in self._lines or host in self._words, RETURN_S)
        if not back:
            self._pass_on(_gone(host))

    def _pass_on(self, word: Word) -> None:
        with self._changed:
            if word.host in self._words:
                return
            self._words[word.host] = word
            self._changed.notify_all()
            for connection in self._lines.values():
                with contextlib.suppress(OSError):  # its own thread sees that it is gone
                    connection.sendall(_line(dataclasses.asdict(word)))


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024  # all hosts of a run at once


def _gone(host: int) -> Word:
    """Of a host whose connection broke: its machine or its supervisor has ended."""
    reason = f"host {host} was lost (its connection broke); see host {host} for why"
    return Word(host, for_all=True, ending=Ending(ExitCode.FAILED, Cause.LOST_HOST, reason), step=0, at="gone")


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _word(value: dict[str, Any]) -> Word:
    ending = Ending.of(value["ending"])
    return Word(int(value["host"]), bool(value["for_all"]), ending, int(value["step"]), str(value["at"]))


def _keep_alive(connection: socket.socket) -> None:
    """So that a machine that vanished is noticed, and a firewall does not forget a connection that is silent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
