"""A root file system like that of a TPU VM's image where it matters: no Python 3.12, no uv, no gcloud.

Holds what Ubuntu Server 22.04 has and bootstrap.sh and the startup script may use (TOOLS), with the libraries that
these need and what wheels may expect of any Linux. It is made of this machine's own files.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Packages: bash, coreutils, util-linux, tar, gzip, sed, grep, findutils, curl.
TOOLS = (
    "bash",
    "base64",
    "basename",
    "cat",
    "chmod",
    "cmp",
    "cp",
    "cut",
    "date",
    "dirname",
    "env",
    "false",
    "head",
    "id",
    "install",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "paste",
    "printf",
    "readlink",
    "realpath",
    "rm",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tee",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "flock",
    "tar",
    "gzip",
    "sed",
    "grep",
    "find",
    "curl",
)
# manylinux wheels may load these besides glibc's own.
LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1")
ANY_GLIBC = 99  # the root has this machine's, so a Python may ask for a newer one than TPU VMs have
ABSENT = ("python3.12", "python3", "python", "uv", "gcloud")


class BareRoot:
    """`directory` is the root; what is run in it sees nothing else of this machine but devices, /proc and loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("usr/bin", "proc", "dev", "tmp", "etc", "root", "var/lib"):
            (directory / name).mkdir(parents=True)
        (directory / "bin").symlink_to("usr/bin")
        (directory / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        # Google's images have the machine's own name there; Gloo asks for its address.
        (directory / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
        programs = [path for name in TOOLS if (path := shutil.which(name, path="/usr/bin:/bin"))]
        for program in programs:
            shutil.copy(program, directory / "usr/bin")
        (directory / "usr/bin/sh").symlink_to("bash")
        for library in (*_libraries_of(programs), *_installed_libraries()):
            target = directory / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)

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


def _libraries_of(programs: list[str]) -> set[str]:
    """Every library that programs load, and the loader, by path."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE))


def _installed_libraries() -> list[str]:
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = dict(re.findall(r"^\s+(\S+) \(libc6,x86-64.*\) => (/\S+)$", listing, re.MULTILINE))
    return [paths[name] for name in LIBRARIES]
