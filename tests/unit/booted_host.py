"""A made-up host on which the startup script runs, as a process of this machine.

A directory for its files, and stand-ins for what only root of a real machine may do, which write down calls.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

BUNDLE = "0123456789abcdef"


class BootedHost:
    """`google`: host and port of what it asks, the metadata server too."""

    def __init__(self, directory: Path, google: str) -> None:
        self.home = directory / "home with a space"
        self.units = directory / "etc" / "systemd" / "system"
        self.huge_pages = directory / "huge pages"
        self._tools, self._calls = directory / "tools", directory / "calls"
        for folder in (self._tools, self.units):
            folder.mkdir(parents=True)
        self.huge_pages.write_text("madvise\n")
        for name in ("systemctl", "useradd", "chown"):
            self.tool(name, f'echo "{name} $*" >>"{self._calls}"')
        self.environ = {
            "PATH": f"{self._tools}:{os.environ['PATH']}",
            "SLIPWAY_HOME": str(self.home),
            "SLIPWAY_UNITS": str(self.units),
            "SLIPWAY_HUGE_PAGES": str(self.huge_pages),
            "SLIPWAY_LOGS_S": "1",
            "GCE_METADATA_HOST": google,
            "SLIPWAY_SECRETS_ENDPOINT": f"http://{google}",
            "SLIPWAY_LOGGING_ENDPOINT": f"http://{google}",
            "no_proxy": "*",
        }

    def tool(self, name: str, text: str) -> None:
        (self._tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (self._tools / name).chmod(0o755)

    def boot(self, script: str) -> list[str]:
        """What it called."""
        self._calls.write_text("")
        done = self.run("-c", script)
        assert done.returncode == 0, done.stderr
        return self._calls.read_text().splitlines()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", *arguments]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False, timeout=60)

    def program(self, name: str) -> str:
        return str(self.home / "programs" / name)

    def train(self) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Where bundle and environment stand already, with a Python that prints its environment; and the status."""
        bundle, python = self.home / "software/bundles" / BUNDLE, self.home / "software/env/w/bin/python"
        for folder in (bundle, python.parent):
            folder.mkdir(parents=True, exist_ok=True)
        (bundle / "MANIFEST").write_text("")
        (bundle / "wheelhouse").write_text("w\n")
        (self.home / "software/env/w/.complete").touch()
        python.write_text("#!/bin/sh\nenv\n")
        python.chmod(0o755)
        done = self.run(self.program("train.sh"))
        return done, json.loads((self.home / "host" / "status.json").read_text())
