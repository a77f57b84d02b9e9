"""A root file system like that of a TPU VM's image where it matters: no Python 3.12, no uv, no gcloud.

It has the programs of an emulated host (infra/emulators/tpu_hosts/system.py), and nothing else of this machine.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

from infra.emulators.tpu_hosts.system import TOOLS, copy_programs

ANY_GLIBC = 99  # the root has this machine's, so a Python may ask for a newer one than TPU VMs have


class BareRoot:
    """`directory` is the root; what is run in it sees nothing else of this machine but devices, /proc and loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("proc", "dev", "tmp", "etc", "root", "var/lib"):
            (directory / name).mkdir(parents=True)
        (directory / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        # Google's images have the machine's own name there; Gloo asks for its address.
        (directory / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
        copy_programs(directory, TOOLS)

    def entering(self, *command: str, binds: Iterable[Path] = (), **variables: str) -> str:
        """Shell text that runs a command in it, with nothing in its environment but `variables`.

        For a mount namespace of one's own. binds: directories that are seen at the same path inside.
        """
        plain = {"PATH": "/usr/bin:/bin", "HOME": "/root"} | variables
        arguments = [*(f"{name}={value}" for name, value in plain.items()), *command]
        mounts = "".join(
            f"mkdir -p .{shlex.quote(str(path))}; mount --bind {shlex.quote(str(path))} .{shlex.quote(str(path))}\n"
            for path in binds
        )
        return (
            f"(\ncd {shlex.quote(str(self.directory))}\n{mounts}mount --rbind /proc proc\nmount --rbind /dev dev\n"
            f"exec chroot . /usr/bin/env -i {shlex.join(arguments)}\n)"
        )

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it and in namespaces of its own."""
        return subprocess.run(
            ["unshare", "-Urm", "bash", "-euc", self.entering(*command, binds=(), **variables)],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
