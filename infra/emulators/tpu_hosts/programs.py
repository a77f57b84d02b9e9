"""`systemctl` and `journalctl` of an emulated host: shell text that asks its init, and the socket that this listens at.

HTTP for curl, which every host has, where Python is what a wheelhouse brings: arguments one a line, then lines as they
come, 400 for a refusal. Owns that way. Refuses to own the answers (init.py, journal_reader.py). Standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

type Answer = Callable[[list[str]], AsyncIterator[str]]

_ASK = "printf '%s\\n' \"$@\" | curl -sN --noproxy '*' --abstract-unix-socket SOCKET --data-binary @-"
_TEXTS = {
    "systemctl": f"""#!/bin/bash
said=$({_ASK} --write-out '%{{http_code}}' http://init/systemctl)
code=${{said: -3}}
said=${{said%???}}
if [[ "$code" == 200 ]]; then
  printf '%s' "$said"
  exit 0
fi
said=${{said%$'\\n'}}
printf '%s\\n' "${{said:-System has not been booted with systemd as init system}}" >&2
exit 1
""",
    "journalctl": f"#!/bin/bash\n{_ASK} http://init/journalctl\n",
}


class RefusedProgramError(Exception):
    """What the program says and fails with."""


def texts(directory: Path) -> dict[str, str]:
    """The programs of the host in this directory, by name."""
    return {name: text.replace("SOCKET", _socket(directory)) for name, text in _TEXTS.items()}


async def serve(directory: Path, answers: Mapping[str, Answer]) -> asyncio.Server:
    """Answers by program, each an iterator of lines that raises RefusedProgramError before the first."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            lines = await _read(reader, answers)
            copying, gone = asyncio.create_task(_write(writer, lines)), asyncio.create_task(reader.read())
            await asyncio.wait((copying, gone), return_when=asyncio.FIRST_COMPLETED)
            copying.cancel()  # without effect once all is written
            gone.cancel()
            await asyncio.wait((copying, gone))
            if not copying.cancelled():
                copying.result()  # an error of the emulator's own is in the log of init
        writer.close()

    return await asyncio.start_unix_server(one, f"\0{_socket(directory)}")


async def _read(reader: asyncio.StreamReader, answers: Mapping[str, Answer]) -> AsyncIterator[str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    arguments = (await reader.readexactly(int(length[1]) if length else 0)).decode().splitlines()
    return answers[head.split()[1].strip("/")]([each for each in arguments if each])


async def _write(writer: asyncio.StreamWriter, lines: AsyncIterator[str]) -> None:
    try:
        first = await anext(lines, None)
        status = "200 OK"
    except RefusedProgramError as error:
        first, status = str(error), "400 Bad Request"
    writer.write(f"HTTP/1.0 {status}\r\nContent-Type: text/plain\r\n\r\n".encode())
    if first is not None:
        writer.write(f"{first}\n".encode())
    await writer.drain()
    async for line in lines:
        writer.write(f"{line}\n".encode())
        await writer.drain()


def _socket(directory: Path) -> str:
    """In Linux's abstract namespace: a path may be too long."""
    return f"slipway-emulated-{hashlib.sha256(str(directory).encode()).hexdigest()[:32]}"
