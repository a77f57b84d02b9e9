"""slipway:index:StackGuard: declared first, so its delete runs last and ends what the state never learned of.

A create that was killed with its engine is not in the state, and `pulumi destroy` would leave it. The guard finds
what carries the stack's label and removes it; what another stack owns is out of its reach.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from infra.providers.resource import Context, Outputs, Resource, replaces, updates
from infra.targets.local import host_directory, processes


@dataclass(frozen=True)
class StackGuardInputs:
    directory: str = replaces()  # of the stack; everything it owns on this machine lies below
    on_destroy: str = updates()


class StackGuard(Resource[StackGuardInputs]):
    token: ClassVar[str] = "slipway:index:StackGuard"
    inputs = StackGuardInputs

    def create(self, context: Context, new: StackGuardInputs) -> tuple[str, Outputs]:
        Path(new.directory).mkdir(parents=True, exist_ok=True)
        return new.directory, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {} if Path(identifier).is_dir() else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: StackGuardInputs) -> Outputs:
        return {}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        root = Path(identifier)
        for directory in sorted((root / "hosts").glob("*")):
            host_directory.stop(directory, context.report, context.wait)
        ended = processes.kill_all(root)
        if ended:
            context.say(f"ended {ended} processes that the state did not know")
        if (root / "hosts").exists():
            shutil.rmtree(root / "hosts")
        if outputs.get("on_destroy") == "delete" and root.exists():
            shutil.rmtree(root)
        elif (root / "runs").is_dir():
            context.say(
                f"kept checkpoints and metrics in {root / 'runs'}; remove them with `slipway purge {root.name}`"
            )
