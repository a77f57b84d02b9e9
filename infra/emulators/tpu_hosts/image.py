"""The disk of an emulated host, and what its image has on it: directories, accounts, and its own systemctl.

Owns where things lie on it, and under which paths the host's processes see them: with a root of its own (view.py) the
disk is their `/`; else they see this machine's programs too, and no more can be hidden than what PATH names. Refuses to
own processes. Standard library only.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from infra.emulators.tpu_hosts import accounts, programs
from infra.emulators.tpu_hosts.network import RESOLVER

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_FILES = accounts.FILES | {
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/resolv.conf": f"nameserver {RESOLVER}\n",  # who asks for a name is seen as who asks for an address
}


@dataclass(frozen=True)
class Image:
    """`has_root`: the directory is the root of the host's processes."""

    directory: Path
    has_root: bool = False

    def seen(self, path: Path) -> Path:
        """The path under which the host's processes see what lies here."""
        return Path("/") / path.relative_to(self.directory) if self.has_root else path

    @property
    def environment_file(self) -> Path:
        """What the host was told at power on, as JSON: variables of all that it runs."""
        return self.directory / "environment.json"

    @property
    def names(self) -> Path:
        return self.directory / "etc" / "hosts"

    @property
    def own_programs(self) -> Path:
        """The host's own; what this machine has of that name comes after them."""
        return self.directory / "usr" / "local" / "sbin"

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
    def calls(self) -> Path:
        """What programs were asked that cannot be done without a root of its own: accounts, owners of files."""
        return self.directory / "var" / "log" / "calls"

    @property
    def environment(self) -> dict[str, str]:
        """Of all that the host runs."""
        if self.has_root:
            return {"PATH": _SYSTEM, "LANG": "C.UTF-8"}
        return {
            "PATH": f"{self.own_programs}:{_SYSTEM}",
            "LANG": "C.UTF-8",
            "SLIPWAY_HOME": str(self.home),
            "SLIPWAY_UNITS": str(self.units),
            "SLIPWAY_HUGE_PAGES": str(self.directory / _HUGE_PAGES),
        }

    def make(self) -> None:
        """A disk as it is before the first boot; nothing is changed on one that is there."""
        for directory in (self.own_programs, self.units, self.root_home, self.journal, self.home.parent):
            directory.mkdir(parents=True, exist_ok=True)
        for name, text in {_HUGE_PAGES: "madvise\n", **_FILES}.items():
            file = self.directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text(text)
        self.root_home.chmod(0o700)
        self.startup_script.parent.mkdir(exist_ok=True)
        self.startup_script.parent.chmod(0o1777)
        for name, text in programs.texts(self.directory).items():
            self._program(name, text)
        if not self.has_root:
            self._make_stand_ins()

    def _make_stand_ins(self) -> None:
        """For what needs accounts that this machine does not have, and a Python until the wheelhouse brings one."""
        for name in ("useradd", "chown"):
            self._program(name, f'#!/bin/sh\necho "{name} $*" >>{shlex.quote(str(self.calls))}\n')
        python = self.own_programs / "python3.12"
        if not python.exists():
            python.symlink_to(Path(sys.executable).resolve())

    def _program(self, name: str, text: str) -> None:
        file = self.own_programs / name
        file.write_text(text)
        file.chmod(0o755)
