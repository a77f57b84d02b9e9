"""What the engine does with the resources of a stack, without the engine: steps in order, a state, a clock.

The resources are the provider's own and talk to an emulator over HTTP; time is the emulator's, so nothing waits. A
stack's own class says which resources, and what `up` does in which order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from infra.providers.resource import Context, OnChange, Resource, ResourceError


class EmulatedContext(Context):
    """Waiting moves the emulator's clock."""

    def __init__(self, advance: Callable[[float], None], lines: list[str], timeout_s: float) -> None:
        super().__init__("urn", timeout_s, threading.Event(), lines.append, lines.append)
        self._advance = advance
        self._elapsed_s = 0.0

    def now(self) -> float:
        return self._elapsed_s

    def pause(self, seconds: float) -> bool:
        if seconds:
            self._elapsed_s += seconds
            self._advance(seconds)
        return self.cancelled.is_set()


class EmulatedEngine:
    """`state` is what a file backend would hold: it is written after each step (`checkpoint`)."""

    resources: ClassVar[Mapping[str, Resource[Any]]]
    advance: Callable[[float], None]
    state: dict[str, dict[str, Any]]
    lines: list[str]
    checkpoint: Callable[[], None]

    def refresh(self) -> None:
        for name in list(self.state):
            self._read(name)

    def changes(self) -> list[str]:
        """What a preview would plan after a refresh."""
        for name in list(self.state):
            if self.resources[name].refresh_before_update:
                self._read(name)
        planned = [name for name in self.resources if name not in self.state or self.state[name]["failed"]]
        return planned + [name for name, entry in self.state.items() if self.resources[name].drift(entry["outputs"])]

    def destroy(self) -> None:
        for name in [name for name in reversed(list(self.resources)) if name in self.state]:
            entry = self.state[name]
            self.resources[name].delete(self._context(name), entry["id"], entry["inputs"] | entry["outputs"])
            del self.state[name]
            self.checkpoint()

    def _step(self, name: str, inputs: dict[str, Any]) -> None:
        resource = self.resources[name]
        if name in self.state and resource.refresh_before_update:
            self._read(name)
        entry = self.state.get(name)
        if entry is None:
            self._create(name, inputs)
            return
        changes = resource.changes(entry["inputs"], inputs, entry["outputs"])
        if OnChange.REPLACE in changes.values():
            resource.delete(self._context(name), entry["id"], entry["outputs"])
            del self.state[name]
            self.checkpoint()
            self._create(name, inputs)
        elif changes or entry["failed"] or resource.drift(entry["outputs"]):
            context = self._context(name)
            context.accept(entry["id"], {})
            self._act(
                name,
                context,
                inputs,
                lambda: (entry["id"], resource.update(context, entry["id"], entry["outputs"], resource.parse(inputs))),
            )
        else:
            entry["inputs"] = inputs

    def _create(self, name: str, inputs: dict[str, Any]) -> None:
        context = self._context(name)
        self._act(
            name, context, inputs, lambda: self.resources[name].create(context, self.resources[name].parse(inputs))
        )

    def _act(
        self, name: str, context: Context, inputs: dict[str, Any], act: Callable[[], tuple[str, dict[str, Any]]]
    ) -> None:
        try:
            identifier, outputs = act()
            self._keep(name, identifier, inputs, outputs, failed=False)
        except ResourceError:
            if context.accepted:
                self._keep(name, context.accepted[0], inputs, context.accepted[1], failed=True)
            raise
        finally:
            self.checkpoint()

    def _read(self, name: str) -> None:
        entry = self.state[name]
        outputs = self.resources[name].read(self._context(name), entry["id"], entry["outputs"])
        if outputs is None:
            del self.state[name]
        else:
            entry["outputs"] |= outputs
        self.checkpoint()

    def _keep(self, name: str, identifier: str, inputs: dict[str, Any], outputs: dict[str, Any], failed: bool) -> None:
        entry = {"id": identifier, "inputs": inputs, "outputs": {**inputs, **outputs}, "failed": failed}
        self.state[name] = json.loads(json.dumps(entry))

    def _context(self, name: str) -> EmulatedContext:
        return EmulatedContext(self.advance, self.lines, self.resources[name].timeout_s)
