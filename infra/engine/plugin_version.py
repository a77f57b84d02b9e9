"""Which version an executable with the name of an official plugin has; its answer is remembered for the next time.

Owns the memory: one file in .slipway, an answer per path, good as long as the executable has the same size and time.
Another process asks the executable, since that needs gRPC (ask_plugin_version.py). Standard library only: this runs at
every command.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from infra.paths import ROOT, TOOLS, WORK

PATIENCE_S = 20.0  # a large executable on a loaded machine takes seconds to start
_MEMORY = WORK / "google-plugin.json"


@dataclass(frozen=True)
class Answer:
    """version: empty where the executable did not answer as a plugin does. sentence: what it did instead."""

    version: str
    sentence: str


def version_of(executable: Path) -> Answer:
    try:
        file = executable.stat()
    except OSError as error:
        return Answer("", f"it cannot be looked at ({error.strerror})")
    stamp = [file.st_mtime_ns, file.st_size]
    memory = _remembered()
    known = memory.get(str(executable))
    if isinstance(known, dict) and cast(dict[str, Any], known).get("stamp") == stamp:
        row = cast(dict[str, Any], known)
        return Answer(str(row.get("version", "")), str(row.get("sentence", "")))
    answer, certain = _ask(executable)
    if certain:
        _remember(memory | {str(executable): {"stamp": stamp, **asdict(answer)}})
    return answer


def _ask(executable: Path) -> tuple[Answer, bool]:
    """The answer, and whether to remember it: not where the executable did not answer in time."""
    python = TOOLS / "python"
    interpreter = python if python.exists() else sys.executable
    done = subprocess.run(
        [interpreter, "-m", "infra.engine.ask_plugin_version", executable, str(PATIENCE_S)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        printed = cast(dict[str, Any], json.loads(done.stdout))
    except ValueError:
        return Answer("", "it could not be asked; run: make setup"), False
    return Answer(str(printed["version"]), str(printed["sentence"])), bool(printed["certain"])


def _remembered() -> dict[str, Any]:
    try:
        memory: Any = json.loads(_MEMORY.read_text())
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], memory) if isinstance(memory, dict) else {}


def _remember(memory: dict[str, Any]) -> None:
    """Writes the memory. Where that fails, the next command asks again."""
    with contextlib.suppress(OSError):
        _MEMORY.parent.mkdir(exist_ok=True)
        new = _MEMORY.with_name(f"{_MEMORY.name}.{os.getpid()}")
        new.write_text(json.dumps(memory, indent=1) + "\n")
        new.replace(_MEMORY)
