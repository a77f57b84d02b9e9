"""gcsfuse, with which hosts mount a bucket: which one that is, and how this machine gets it.

Owns the hash that a preview names (tools/gcsfuse/made.sums) and the build that must have it. Refuses to own the steps
of the build (tools/gcsfuse.sh) and the mount (infra/vm_hosts/mount.sh), which root of a host does: so it lies beside
the wheels of a wheelhouse, and bootstrap.sh leaves it there.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from infra.artifacts.store import sha256_of
from infra.paths import ROOT

NAME = "gcsfuse"
BUILD = ROOT / "tools" / "gcsfuse.sh"
SUMS = ROOT / "tools" / "gcsfuse" / "made.sums"


class MountProgramError(RuntimeError):
    """The program cannot be had, or is not the one that previews name; one sentence."""


@dataclass(frozen=True)
class MountProgram:
    """By the hash that it has wherever it is built."""

    sha256: str

    def __str__(self) -> str:
        return f"{NAME} (sha256 {self.sha256[:12]})"


def mount_program() -> MountProgram:
    return MountProgram(SUMS.read_text().split()[0])


def built(program: MountProgram) -> Path:
    """The program on this machine, which builds it unless it has it. Raises MountProgramError."""
    done = subprocess.run([BUILD], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise MountProgramError(f"{NAME} cannot be built; the reason is above")
    path = Path(done.stdout.strip())
    if (found := sha256_of(path)) != program.sha256:
        raise MountProgramError(
            f"{NAME} built here has SHA-256 {found[:12]}, {SUMS.relative_to(ROOT)} says {program.sha256[:12]}: what it "
            f"is built from has changed; remove {path} and build it again, then write its hash there"
        )
    return path
