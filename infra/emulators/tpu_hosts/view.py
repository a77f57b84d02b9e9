"""The file system that the processes of an emulated host see: a root of its own, as a TPU VM has.

The host's disk is the root. Programs and libraries are an image's (system.py), the same for all hosts and read-only;
/proc is this machine's, /dev and /run are empty at each boot. Owns what is mounted where, and how a process gets there.
Refuses to own what is on the disk (image.py). Needs root's rights (`permitted`). Mounts are in a namespace of the
host's (network.py), and end with its last process.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from infra.emulators.tpu_hosts.accounts import HostAccount
from infra.emulators.tpu_hosts.system import ACCOUNT_TOOLS, TOOLS, copy_programs, program

# <disk> <image> [<directory to share>...] -- <command>...
_MOUNTED = """
cd "$1"
image=$2
shift 2
for part in "$image"/* "$image"/usr/*; do
  at=.${part#"$image"}
  if [[ -L "$part" ]]; then
    ln -sfn "$(readlink "$part")" "$at"
  elif [[ "$part" != "$image/usr" ]]; then
    mkdir -p "$at"
    mount --bind "$part" "$at"
    mount -o remount,bind,ro "$at"
  fi
done
mkdir -p dev proc run
mount --rbind /proc proc
mount -t tmpfs -o mode=755 dev dev
for device in null zero full random urandom fuse; do
  [[ -e "/dev/$device" ]] || continue # a machine may be without fuse, and so are its hosts then
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"; done
mkdir -m 1777 dev/shm
mount -t tmpfs -o mode=755 run run
while [[ "$1" != -- ]]; do
  mkdir -p ".$1"
  mount --bind "$1" ".$1"
  shift
done
shift
exec "$@"
"""
_TRIED = 'mount -t tmpfs none /mnt && exec chroot --userspec=65534:65534 / "$(command -v true)"'

# POSIX ACL, version 2: owner (1), group (4) and others (32) may read, write and enter (7).
_FOR_ALL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (1, 4, 32))


@dataclass(frozen=True)
class SharedDirectory:
    """Of this machine, which hosts have at the same path; `is_writable`: their accounts may write there."""

    path: Path
    is_writable: bool = False


def make_image(directory: Path) -> None:
    """What every host of a cloud has of programs and libraries."""
    copy_programs(directory, (*TOOLS, *ACCOUNT_TOOLS))


def open_to_all(directory: Path) -> None:
    """Accounts of every host may write in it and in what anybody makes in it later, as a file server may export it."""
    for each, _, _ in directory.walk():
        each.chmod(0o777)
        os.setxattr(each, "system.posix_acl_default", _FOR_ALL)  # instead of the umask of who makes something there


def with_root(disk: Path, image: Path, shared: Sequence[SharedDirectory], command: Sequence[str]) -> list[str]:
    """The command, outside of that root, with all mounted below `disk`; in a mount namespace of the host's."""
    return [
        "bash",
        "-euc",
        _MOUNTED,
        "bash",
        str(disk),
        str(image),
        *(str(each.path) for each in shared),
        "--",
        *command,
    ]


def enter(root: Path, account: HostAccount) -> None:
    """The calling process is in it from now on, as that account: for a child before it becomes a program."""
    os.chroot(root)
    os.chdir("/")
    os.umask(0o022)
    os.setgroups(account.groups)
    os.setgid(account.gid)
    os.setuid(account.uid)


@cache
def permitted() -> bool:
    """Whether this process may do all that, and this machine has the programs."""
    if os.geteuid() or not all(map(program, ACCOUNT_TOOLS)):
        return False
    tried = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", _TRIED]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0
