"""What the image of a TPU VM has of programs where it matters, copied from this machine: no Python, no uv, no gcloud.

Owns the list: what Ubuntu Server 22.04 has and bootstrap.sh and the startup script may use, with the libraries that
these need and what wheels may expect of any Linux. Refuses to own what is mounted where (view.py).
"""

from __future__ import annotations

import re
import shutil
import subprocess
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
    "mount",
    "mountpoint",
    "mv",
    "nproc",
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
    "umount",
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
ACCOUNT_TOOLS = ("chown", "useradd", "nologin")  # coreutils, passwd, login: for root alone
ABSENT = ("python3.12", "python3", "python", "pip", "pip3", "uv", "gcloud")
# manylinux wheels may load these besides glibc's own.
_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1")


def program(name: str) -> str | None:
    """Where this machine's own is, whatever PATH says."""
    return shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")


def copy_programs(root: Path, names: tuple[str, ...]) -> None:
    """Into `usr/bin`, with all that they load; `bin`, `sbin` and `usr/sbin` lead there. `root` has none of them yet."""
    (root / "usr/bin").mkdir(parents=True)
    for link, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("usr/sbin", "bin")):
        (root / link).symlink_to(target)
    programs = [path for path in map(program, names) if path]
    for path in programs:
        shutil.copy(path, root / "usr/bin")
    (root / "usr/bin/sh").symlink_to("bash")
    for library in (*_libraries_of(programs), *_installed_libraries()):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def _libraries_of(programs: list[str]) -> set[str]:
    """Every library that programs load, and the loader, by path."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE))


def _installed_libraries() -> list[str]:
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = dict(re.findall(r"^\s+(\S+) \(libc6,x86-64.*\) => (/\S+)$", listing, re.MULTILINE))
    return [paths[name] for name in _LIBRARIES]
