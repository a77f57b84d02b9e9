"""The journal of an emulated host: a file a namespace, one JSON object a line as `journalctl --output=json` prints it.

Owns its fields and its files. Refuses to own who reads them (programs/journalctl). Standard library only.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

INFO = 6


class Journal:
    """Written by one process at a time; numbers go on from what is there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._boot = uuid.uuid4().hex
        self._began = time.monotonic()
        self._numbers = dict[str, int]()
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, namespace: str, unit: str, message: str, priority: int = INFO) -> None:
        file = self._directory / f"{namespace or 'system'}.jsonl"
        if namespace not in self._numbers:
            self._numbers[namespace] = len(file.read_text().splitlines()) if file.exists() else 0
        number = self._numbers[namespace] = self._numbers[namespace] + 1
        now, since_boot = int(time.time() * 1e6), int((time.monotonic() - self._began) * 1e6)
        cursor = f"s={self._name(namespace)};i={number:x};b={self._boot};m={since_boot:x};t={now:x};x={number:x}"
        entry = {
            "__CURSOR": cursor,
            "__REALTIME_TIMESTAMP": str(now),
            "__MONOTONIC_TIMESTAMP": str(since_boot),
            "_BOOT_ID": self._boot,
            "_SYSTEMD_UNIT": unit,
            "PRIORITY": str(priority),
            "MESSAGE": message,
        }
        with file.open("a") as lines:
            lines.write(json.dumps(entry) + "\n")

    def _name(self, namespace: str) -> str:
        """Of the file: the same as long as its disk is."""
        name = self._directory / f"{namespace or 'system'}.id"
        if not name.exists():
            name.write_text(uuid.uuid4().hex)
        return name.read_text()
