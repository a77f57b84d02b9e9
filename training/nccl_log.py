"""What NCCL says of itself: by which network it talks to other hosts, and what it complains of.

Owns the lines of NCCL's log that are understood (NVIDIA/nccl, src/init.cc and src/debug.cc: each communicator says
`Using network <name>` at INFO, subsystem INIT). Refuses to own what follows (training/supervisor.py) and where NCCL is
told to write (training/launch.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from training.gpu_environment import NETWORKS

FILE_NAME = "nccl.log"
_SOCKETS = "Socket"  # NCCL's own name of it (src/transport/net_socket.cc)
_USING = re.compile(r"NCCL INFO Using network (?P<name>.+)$")
_WARNING = re.compile(r"NCCL WARN (?P<said>.+)$")


class NcclLog:
    """One host's log as it grows; each line is read once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def lines(self) -> list[str]:
        """Whole lines since the last call; none while there is no file, which NCCL makes with its first line."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()


def warnings(lines: list[str]) -> list[str]:
    return [found["said"] for line in lines if (found := _WARNING.search(line))]


def sockets_refused(lines: list[str], network: str, path: Path) -> str | None:
    """One sentence where NCCL talks to other hosts by plain sockets. network: the one that it should have taken."""
    taken = {found["name"].strip() for line in lines if (found := _USING.search(line))}
    if _SOCKETS not in taken:
        return None
    known = NETWORKS.get(network)
    look = known.look if known else "look at what of the node's network cards the pod has, and at NCCL's plugin for it"
    return (
        f"NCCL fell back to plain sockets between hosts ('Using network {_SOCKETS}' in {path}), and allow_sockets is "
        f"false: {look}"
    )
