"""The `Hosts` interface: what every target offers to the day-2 command, and the table of who implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from infra.paths import ARTIFACTS
from infra.stack_file.settings import Target
from infra.targets.local.host_directory import HostState
from infra.targets.local.hosts import LocalHosts
from infra.targets.tpu_vm.plan import artifacts


class Hosts(Protocol):
    """The hosts of one stack. `index` counts over all slices."""

    @property
    def stack(self) -> str: ...

    def list(self) -> Sequence[HostState]:
        """Every host with its phase, by index; empty where nothing is deployed."""
        ...

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        """What the host's training logged of the current run, one mapping per logged step, oldest first."""
        ...

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        """Lines of the host's log; with `follow` until it ends."""
        ...

    def stop(self, progress: Callable[[str], None]) -> None:
        """Save a checkpoint and end training on all hosts."""
        ...

    def start(self) -> None:
        """Start hosts that are not running; training resumes at its last checkpoint."""
        ...

    def run_directory(self) -> Path | None:
        """Where the current run keeps checkpoints, metrics and its record."""
        ...


OPEN: dict[Target, Callable[[str], Hosts]] = {Target.LOCAL: LocalHosts}

# Where the hosts of a stack read wheels and bundles from.
STORE: dict[Target, Callable[[Any], str]] = {Target.LOCAL: lambda settings: str(ARTIFACTS), Target.TPU_VM: artifacts}
