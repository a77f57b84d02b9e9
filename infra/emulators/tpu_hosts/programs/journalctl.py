"""`journalctl` of an emulated host: prints its journal (journal.py). Its first argument is its own path.

Knows --namespace, --unit, --follow, --lines, --output=json|cat, --output-fields, --after-cursor and --all; without
--output it prints messages alone. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PAUSE_S = 0.1


def main(own: str, arguments: list[str]) -> int:
    options = _options(arguments)
    file = Path(own).parents[1] / "var" / "log" / "journal" / f"{options.namespace}.jsonl"
    while options.follow and not file.exists():
        time.sleep(_PAUSE_S)
    if not file.exists():
        return 0
    with file.open() as lines:
        for line in _wanted(lines, options):
            print(line, flush=True)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="journalctl")
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


def _wanted(lines: IO[str], options: argparse.Namespace) -> Iterator[str]:
    """As a follower of systemd's: those that are there, of which `--lines` says how many, then each as it comes."""
    there = [entry for entry in map(json.loads, lines.readlines()) if _is_of(entry, options)]
    cursors = [entry["__CURSOR"] for entry in there]
    if options.after_cursor in cursors:
        there = there[cursors.index(options.after_cursor) + 1 :]
    limit = options.lines or ("10" if options.follow and not options.after_cursor else "all")
    for entry in there if limit == "all" else there[-int(limit) :]:
        yield _printed(entry, options)
    part = ""
    while options.follow:
        part += lines.readline()
        if not part.endswith("\n"):
            time.sleep(_PAUSE_S)
            continue
        entry, part = json.loads(part), ""
        if _is_of(entry, options):
            yield _printed(entry, options)


def _is_of(entry: dict[str, str], options: argparse.Namespace) -> bool:
    return options.unit in (None, entry["_SYSTEMD_UNIT"], entry["_SYSTEMD_UNIT"].removesuffix(".service"))


def _printed(entry: dict[str, str], options: argparse.Namespace) -> str:
    if options.output == "cat":
        return entry["MESSAGE"]
    fields = options.output_fields.split(",") if options.output_fields else list(entry)
    return json.dumps({key: value for key, value in entry.items() if key.startswith("__") or key in fields})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
