"""A provider with one resource over files, on the real server: what the base promises is tested through it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from infra.providers.resource import (
    Context,
    Outputs,
    RemoteService,
    Resource,
    ResourceError,
    ignored,
    replaces,
    updates,
)
from infra.providers.server import serve


@dataclass(frozen=True)
class ThingInputs:
    token: ClassVar[str] = "sample:index:Thing"
    path: str = replaces()
    size: int = updates()
    gate: str = ignored(default="")  # create waits until this file exists
    trouble: str = ignored(default="")  # "refuse" before anything exists, "fail" after, "fault" and "check" for bugs
    paint: str = replaces("a thing is painted once", default="grey")  # plays an input that a later release has added
    note: str | None = updates(default=None)
    parts: list[dict[str, int]] = updates(default_factory=list)  # noqa: RUF009 - a field, as above


class Thing(Resource[ThingInputs]):
    """A file; its content is its inputs."""

    inputs = ThingInputs
    refresh_before_update: ClassVar[bool] = True

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return RemoteService("things.example.com", "THINGS_ENDPOINT", os.environ.get("THINGS_ENDPOINT", ""))

    def check(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        if values.get("trouble") == "check":
            raise KeyError("nobody expected this")
        return super().check(values)

    def create(self, context: Context, new: ThingInputs) -> tuple[str, Outputs]:
        if new.trouble == "refuse":
            raise ResourceError(f"{new.path} is refused; ask for another")
        if new.trouble == "fault":
            raise KeyError("nobody expected this")
        Path(new.path).write_text(json.dumps({"size": new.size}))
        context.accept(new.path, {"seen": "made"})
        if new.trouble == "fail":
            raise ResourceError("made, but it never became ready")
        while new.gate and not Path(new.gate).exists():
            context.report("waiting at the gate")
            context.wait(0.05)
        return new.path, {"seen": "made"}

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        path = Path(identifier)
        return {"seen": "made" if "broken" not in path.read_text() else "broken"} if path.exists() else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: ThingInputs) -> Outputs:
        Path(identifier).write_text(json.dumps({"size": new.size}))
        return {"seen": "made"}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        Path(identifier).unlink(missing_ok=True)

    def drift(self, outputs: Outputs) -> list[str]:
        return ["seen"] if outputs.get("seen") == "broken" else []


if __name__ == "__main__":
    serve({ThingInputs.token: Thing()}, lambda: None)
