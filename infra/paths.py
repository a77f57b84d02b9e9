"""Where things lie: the clone, and what a stack keeps under .slipway/. Pure; creates nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".slipway"
STACKS = ROOT / "stacks"
TRAINING = ROOT / "training"
TOOLS = ROOT / ".venv" / "bin"  # what setup has put there
PULUMI = TOOLS / "pulumi"  # our wrapper (infra/engine/wrapper.py)
UV = TOOLS / "uv"
ARTIFACTS = WORK / "artifacts"  # this machine's artifact store; where wheelhouses are built
INSTALLED = WORK / "installed"  # bundles and environments of this machine's hosts
PYTHONS = WORK / "pythons"  # archives of this machine's own Python
PREPARED = WORK / "data"  # text that is prepared on this machine, each below its content
RUN_SPEC = "run_spec.yaml"  # in the bundle, where bootstrap.sh reads it, and beside each host of this machine

# Directories of .slipway/ that are not stacks; a stack cannot take these names.
SHARED = frozenset(
    {
        "artifacts",
        "bench.json",
        "cache",
        "data",
        "env",
        "google-plugin.json",
        "installed",
        "pythons",
        "setup.lock",
        "state",
    }
)


@dataclass(frozen=True)
class StackPaths:
    """What a local stack keeps: hosts/, one directory each, and runs/, its bucket: checkpoints, metrics, records."""

    root: Path

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def host(self, index: int) -> Path:
        return self.hosts / str(index)


def of_stack(stack: str, work: Path = WORK) -> StackPaths:
    return StackPaths(work / stack)


def stack_file(stack: str) -> Path:
    return STACKS / f"Pulumi.{stack}.yaml"
