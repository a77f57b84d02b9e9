"""The programs of the control plane and the manifests that their projects publish, where tools/cluster.sh puts them.

Owns the question whether they are built. Refuses to build them: that takes minutes, which a person decides.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.paths import ROOT
from infra.sentences import SentenceError

type Manifest = dict[str, Any]


class NotBuiltError(SentenceError):
    """This machine has no control plane; the message says what builds it."""


@dataclass(frozen=True)
class ClusterPrograms:
    """The directory that tools/cluster.sh prints."""

    directory: Path

    def path(self, program: str) -> Path:
        return self.directory / "bin" / program

    def manifests(self, name: str) -> list[Manifest]:
        """Those of a line of tools/cluster/manifests.txt, as published."""
        text = (self.directory / "manifests" / f"{name}.yaml").read_text(encoding="utf-8")
        return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def find() -> ClusterPrograms:
    """Raises NotBuiltError."""
    asked = subprocess.run([ROOT / "tools" / "cluster.sh", "find"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise NotBuiltError(asked.stderr.strip().removeprefix("error: "))
    return ClusterPrograms(Path(asked.stdout.strip()))
