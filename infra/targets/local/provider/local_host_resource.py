"""slipway:local:Host: one host of a local stack, a detached process group with a directory of its own.

Create returns once the host's environment stands and launch has begun; training goes on after the engine has ended.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from infra.providers.resource import Context, Outputs, Resource, ResourceError
from infra.targets.local import host_directory
from infra.targets.local.host_directory import HostRecord
from infra.targets.local.provider.local_inputs import LocalHostInputs


class LocalHostResource(Resource[LocalHostInputs]):
    inputs = LocalHostInputs
    timeout_s: ClassVar[float] = 1200.0
    refresh_before_update: ClassVar[bool] = True

    def create(self, context: Context, new: LocalHostInputs) -> tuple[str, Outputs]:
        directory = Path(new.directory)
        identifier = f"{directory.parent.parent.name}/{new.index}"
        host = host_directory.state(directory)
        is_as_wanted = host and host.healthy and host.record.bundle == new.bundle
        if not is_as_wanted:  # else an `up` has started it that was killed before it could record it
            self._start(context, identifier, new)
        return identifier, _outputs(directory)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        directory = Path(str(outputs["directory"]))
        return _outputs(directory) if host_directory.read_record(directory) else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: LocalHostInputs) -> Outputs:
        self._start(context, identifier, new)
        return _outputs(Path(new.directory))

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        directory = Path(str(outputs["directory"]))
        host_directory.stop(directory, context.report, context.wait)
        if directory.exists():
            shutil.rmtree(directory)

    def drift(self, outputs: Outputs) -> list[str]:
        return ["health"] if outputs.get("health", "ok") != "ok" else []

    def _start(self, context: Context, identifier: str, new: LocalHostInputs) -> None:
        directory = Path(new.directory)
        host_directory.stop(directory, context.report, context.wait)
        record = HostRecord(new.index, new.count, new.coordinator, new.artifacts, new.bundle, new.root, new.cache)
        host_directory.start(directory, record, new.run_spec)
        context.accept(identifier, {"health": "starting"})
        while (host := host_directory.state(directory)) is None or host.phase == "bootstrapping":
            context.report(f"host {new.index}: installing its environment")
            context.wait(host_directory.POLL_S)
        if not host.healthy:
            raise ResourceError(f"host {new.index} {host.phase}: {host.reason}; log: {directory / host_directory.LOG}")


def _outputs(directory: Path) -> Outputs:
    return {"health": host_directory.health(directory)}
