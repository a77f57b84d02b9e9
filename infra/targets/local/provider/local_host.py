"""slipway:local:Host: one host of a local stack, a detached process group with a directory of its own.

Create returns once the host's environment stands and launch has begun; training goes on after the engine has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from infra.providers.resource import Context, Outputs, Resource, ResourceError, ignored, replaces, updates
from infra.targets.local import host_directory


@dataclass(frozen=True)
class LocalHostInputs:
    directory: str = replaces()
    index: int = replaces()
    count: int = updates()
    coordinator: str = updates()
    run_spec: str = updates()  # the YAML text
    artifacts: str = updates()
    bundle: str = updates()  # its hash: other code on the host is a restart
    root: str = ignored()
    cache: str = ignored()

    @property
    def record(self) -> host_directory.HostRecord:
        return host_directory.HostRecord(
            self.index, self.count, self.coordinator, self.artifacts, self.bundle, self.root, self.cache
        )


class LocalHost(Resource[LocalHostInputs]):
    token: ClassVar[str] = "slipway:local:Host"
    inputs = LocalHostInputs
    timeout_s: ClassVar[float] = 1200.0
    refresh_before_update: ClassVar[bool] = True

    def create(self, context: Context, new: LocalHostInputs) -> tuple[str, Outputs]:
        directory = Path(new.directory)
        identifier = f"{directory.parent.parent.name}/{new.index}"
        found = host_directory.state(directory)
        same = found and found.healthy and found.record.bundle == new.bundle
        if not same:  # else: made by an `up` that was killed before it could say so
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
        host_directory.remove(directory)

    def drift(self, outputs: Outputs) -> list[str]:
        return ["health"] if outputs.get("health", "ok") != "ok" else []

    def _start(self, context: Context, identifier: str, new: LocalHostInputs) -> None:
        directory = Path(new.directory)
        host_directory.stop(directory, context.report, context.wait)
        host_directory.start(directory, new.record, new.run_spec)
        context.accept(identifier, {"health": "starting"})
        while (now := host_directory.state(directory)) is None or now.phase == "bootstrapping":
            context.report(f"host {new.index}: installing its environment")
            context.wait(host_directory.POLL_S)
        if not now.healthy:
            raise ResourceError(f"host {new.index} {now.phase}: {now.reason}; log: {directory / host_directory.LOG}")


def _outputs(directory: Path) -> Outputs:
    return {"health": host_directory.health(directory)}
