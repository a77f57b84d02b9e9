"""Accounts of an emulated host that has a root of its own: those of its own /etc/passwd and /etc/group.

Owns how these files are read, since what reads them for Python are this machine's. Refuses to own who makes accounts:
the host's own `useradd` does. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostAccount:
    """`groups` has `gid` among them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


ROOT_ACCOUNT = HostAccount("root", 0, 0, (0,), "/root", "/bin/bash")
# Before the first boot; `useradd` reads login.defs too, and gives the account a group of its own by it.
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
    "etc/login.defs": "USERGROUPS_ENAB yes\nSYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n",
}


def account(root: Path, name: str) -> HostAccount | None:
    """Of the host whose root is this directory; None where it has no such account."""
    for fields in _lines(root / "etc/passwd", 7):
        if fields[0] == name:
            uid, gid = int(fields[2]), int(fields[3])
            more = [int(group[2]) for group in _lines(root / "etc/group", 4) if name in group[3].split(",")]
            return HostAccount(name, uid, gid, tuple(dict.fromkeys((gid, *more))), fields[5], fields[6])
    return None


def _lines(file: Path, fields: int) -> list[list[str]]:
    lines = [line.split(":") for line in file.read_text().splitlines()]
    return [line for line in lines if len(line) == fields]
