"""The disk of an emulated host, and what its image has on it: directories, and stand-ins for programs of root.

Owns where things lie on it. A host sees this machine's programs too: where no file system of its own is permitted, no
more can be hidden than what PATH names. Refuses to own processes. Standard library only.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = Path(__file__).with_name("programs")
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    directory: Path

    @property
    def environment_file(self) -> Path:
        """What the host was told at power on, as JSON: variables of all that it runs."""
        return self.directory / "environment.json"

    @property
    def names(self) -> Path:
        return self.directory / "etc" / "hosts"

    @property
    def programs(self) -> Path:
        return self.directory / "bin"

    @property
    def units(self) -> Path:
        return self.directory / "etc" / "systemd" / "system"

    @property
    def enabled(self) -> Path:
        return self.units / "multi-user.target.wants"

    @property
    def home(self) -> Path:
        """What `/var/lib/slipway` is on a real one."""
        return self.directory / "var" / "lib" / "slipway"

    @property
    def root_home(self) -> Path:
        return self.directory / "root"

    @property
    def journal(self) -> Path:
        return self.directory / "var" / "log" / "journal"

    @property
    def startup_script(self) -> Path:
        return self.directory / "tmp" / "startup-script"

    @property
    def startup_log(self) -> Path:
        return self.directory / "var" / "log" / "startup-script.log"

    @property
    def init_log(self) -> Path:
        return self.directory / "var" / "log" / "init.log"

    @property
    def huge_pages(self) -> Path:
        return self.directory / "sys" / "transparent_hugepage"

    @property
    def calls(self) -> Path:
        """What programs were asked that cannot be done here: accounts, owners of files."""
        return self.directory / "var" / "log" / "calls"

    @property
    def environment(self) -> dict[str, str]:
        """Of all that the host runs."""
        return {
            "PATH": f"{self.programs}:{_SYSTEM}",
            "LANG": "C.UTF-8",
            "SLIPWAY_HOME": str(self.home),
            "SLIPWAY_UNITS": str(self.units),
            "SLIPWAY_HUGE_PAGES": str(self.huge_pages),
        }

    def make(self) -> None:
        """A disk as it is before the first boot; nothing is changed on one that is there."""
        for directory in (self.programs, self.units, self.root_home, self.journal):
            directory.mkdir(parents=True, exist_ok=True)
        for file in (self.startup_script, self.init_log, self.huge_pages):
            file.parent.mkdir(parents=True, exist_ok=True)
        self.huge_pages.write_text("madvise\n")
        for source in _PROGRAMS.iterdir():
            self._program(source.stem, f'exec {shlex.quote(sys.executable)} -I {shlex.quote(str(source))} "$0" "$@"')
        for name in ("useradd", "chown"):  # they need accounts that this machine does not have
            self._program(name, f'echo "{name} $*" >>{shlex.quote(str(self.calls))}')
        python = self.programs / "python3.12"  # until the wheelhouse brings one
        if not python.exists():
            python.symlink_to(Path(sys.executable).resolve())

    def _program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


def control_socket(directory: Path) -> str:
    """Of a host's init, in Linux's abstract namespace: a path may be too long. programs/systemctl.py has it too."""
    return f"\0slipway-emulated-{hashlib.sha256(str(directory).encode()).hexdigest()[:32]}"
