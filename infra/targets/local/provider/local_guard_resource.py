"""slipway:index:StackGuard: declared first, so its delete runs last and ends what the state never learned of.

A create that was killed with its engine is not in the state, and `pulumi destroy` would leave it. The guard finds
what carries the stack's label and removes it; what another stack owns is out of its reach.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from infra.providers.resource import Context, Outputs, Resource
from infra.targets.local import host_directory, processes
from infra.targets.local.provider.local_inputs import LocalStackGuardInputs


class LocalStackGuardResource(Resource[LocalStackGuardInputs]):
    inputs = LocalStackGuardInputs

    def create(self, context: Context, new: LocalStackGuardInputs) -> tuple[str, Outputs]:
        Path(new.directory).mkdir(parents=True, exist_ok=True)
        return new.directory, {}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        return {} if Path(identifier).is_dir() else None

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        root = Path(identifier)
        for directory in sorted((root / "hosts").glob("*")):
            host_directory.stop(directory, context.report, context.wait)
        if ended := processes.kill_all(root):
            context.say(f"ended {ended} processes that the state did not know")
        if (root / "hosts").exists():
            shutil.rmtree(root / "hosts")
        runs = Path(str(outputs.get("runs") or root / "runs"))
        if outputs.get("on_destroy") == "delete":
            for directory in (runs, root):
                if directory.exists():
                    shutil.rmtree(directory)
        elif runs.is_dir():
            context.say(f"kept checkpoints and metrics in {runs}; remove them with `slipway purge {root.name}`")
