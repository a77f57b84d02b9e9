"""What `journalctl` of an emulated host prints of its journal (journal.py).

Knows --namespace, --unit, --follow, --lines, --output=json|cat, --output-fields, --after-cursor and --all; without
--output it prints messages alone. Standard library only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, NoReturn

from infra.emulators.tpu_hosts.programs import RefusedProgramError

_PAUSE_S = 0.1


async def read(journal: Path, arguments: list[str]) -> AsyncIterator[str]:
    """Lines to print; a follower's never end. Raises RefusedProgramError for an option that is not known."""
    options = _options(arguments)
    file = journal / f"{options.namespace}.jsonl"
    while options.follow and not file.exists():
        await asyncio.sleep(_PAUSE_S)
    if file.exists():
        with file.open() as lines:
            async for entry in _wanted(lines, options):
                yield _printed(entry, options)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedProgramError(f"{self.prog}: {message}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="journalctl", add_help=False)
    parser.add_argument("--namespace", default="system")
    parser.add_argument("-u", "--unit")
    parser.add_argument("-f", "--follow", action="store_true")
    parser.add_argument("-n", "--lines", default="")
    parser.add_argument("-a", "--all", action="store_true")
    parser.add_argument("-o", "--output", choices=("json", "cat"), default="cat")
    parser.add_argument("--output-fields", default="")
    parser.add_argument("--after-cursor", default="")
    parser.add_argument("--no-pager", action="store_true")
    return parser.parse_args(arguments)


async def _wanted(lines: IO[str], options: argparse.Namespace) -> AsyncIterator[dict[str, str]]:
    """As a follower of systemd's: those that are there, of which `--lines` says how many, then each as it comes."""
    there = [entry for entry in map(json.loads, lines.readlines()) if _is_of(entry, options)]
    cursors = [entry["__CURSOR"] for entry in there]
    if options.after_cursor in cursors:
        there = there[cursors.index(options.after_cursor) + 1 :]
    limit = options.lines or ("10" if options.follow and not options.after_cursor else "all")
    for entry in there if limit == "all" else there[-int(limit) :]:
        yield entry
    part = ""
    while options.follow:
        part += lines.readline()
        if not part.endswith("\n"):
            await asyncio.sleep(_PAUSE_S)
            continue
        entry, part = json.loads(part), ""
        if _is_of(entry, options):
            yield entry


def _is_of(entry: dict[str, str], options: argparse.Namespace) -> bool:
    return options.unit in (None, entry["_SYSTEMD_UNIT"], entry["_SYSTEMD_UNIT"].removesuffix(".service"))


def _printed(entry: dict[str, str], options: argparse.Namespace) -> str:
    if options.output == "cat":
        return entry["MESSAGE"]
    fields = options.output_fields.split(",") if options.output_fields else list(entry)
    return json.dumps({key: value for key, value in entry.items() if key.startswith("__") or key in fields})
