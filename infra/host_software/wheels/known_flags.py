"""Whether the jaxlib of a wheelhouse knows the flags of XLA that hosts with GPUs are given, from its wheel alone.

A jaxlib that runs names each of its flags as a whole C string in its library, and none that it has lost. So nothing is
installed and nothing runs; tests/training/test_xla_flags.py asks the locked one itself. Refuses to own the flags
(training/gpu_environment.py).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from training import gpu_environment

_PART = 1 << 24


def problem(wheel: Path, version: str) -> str | None:
    """One sentence with every flag of the table that this jaxlib does not know; None where it knows all."""
    networks = ("", *gpu_environment.NETWORKS)
    names = {each.name for network in networks for each in gpu_environment.flags(network, version)}
    if not (unknown := sorted(_absent(wheel, names))):
        return None
    return (
        f"{wheel.name} does not know {', '.join(unknown)}, with which every GPU host would abort at its start; end "
        f"its versions in training/gpu_environment.py before {version}"
    )


def _absent(wheel: Path, flags: Iterable[str]) -> set[str]:
    left = {flag: b"\0%s\0" % flag.removeprefix("--").encode() for flag in flags}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if left and name.endswith(".so"):
                with archive.open(name) as library:
                    left = _not_in(library, left)
    return set(left)


def _not_in(library: IO[bytes], left: dict[str, bytes]) -> dict[str, bytes]:
    """In parts, each with the end of the one before it: a library of 330 MB is never whole in memory."""
    overlap, end = max(map(len, left.values())), b""
    while left and (part := library.read(_PART)):
        text = end + part
        left = {flag: word for flag, word in left.items() if word not in text}
        end = text[-overlap:]
    return left
