"""What the engine does with the resources of a tpu-vm stack, without the engine: steps in order, a state, a clock.

The resources are the provider's own and talk to the emulator over HTTP; time is the emulator's, so nothing waits.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from infra.emulators.tpu_api import Cloud
from infra.names import OWNER_LABEL, STACK_LABEL
from infra.providers.resource import Context, OnChange, Resource, ResourceError
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup
from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
from infra.targets.tpu_vm.provider.tpu_inputs import (
    STARTUP_SCRIPT,
    QueuedResourceInputs,
    SliceReadyInputs,
    TpuStackGuardInputs,
)
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource

OWNER = "alice"
ZONES = ["us-east5-b", "us-east5-a"]
RESOURCES: dict[str, Resource[Any]] = {
    "guard": TpuStackGuardResource(),
    "request": TpuRequestResource(),
    "ready": SliceReadyResource(),
}


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


def wanted(stack: str = "s", **changes: Any) -> QueuedResourceInputs:
    request = QueuedResourceInputs(
        project="p",
        zones=ZONES,
        name=f"q-{stack}",
        nodes=1,
        accelerator_type="v6e-8",
        runtime_version="v2-alpha-tpuv6e",
        tier="spot",
        networks=[{"network": "n", "subnetwork": "s", "enable_external_ips": False}],
        service_account="sa",
        scopes=["scope"],
        labels={STACK_LABEL: stack, OWNER_LABEL: OWNER},
        tags=["t"],
        metadata={"startup-script": "#!"},
        data_disks=[],
    )
    return dataclasses.replace(request, **changes)


def script(bundle: str, store: str) -> str:
    """What of the startup script says where a host finds its bundle."""
    return f"#!/bin/bash\nexport SLIPWAY_ARTIFACTS={store}\nexport SLIPWAY_BUNDLE={bundle}\nexport SLIPWAY_WANTED=''\n"


def telling(bundle: str, store: str) -> dict[str, Any]:
    """Inputs of a request whose hosts learn in this store which bundle they run."""
    return {"metadata": {STARTUP_SCRIPT: script(bundle, store)}, "wanted_in": store}


def labels_in(cloud: Cloud, name: str) -> dict[str, str]:
    """Of a request that is there, with the state that has taken it over."""
    request = cloud.ledger.requests[name]
    nodes = [cloud.ledger.nodes[node].message for node in request.node_names if node in cloud.ledger.nodes]
    return tpu_cleanup.labels_of(tpu_api.types().QueuedResource.wrap(request.message), nodes)


@dataclass
class Stack:
    """`state` is what a file backend would hold: it is written after each step (`checkpoint`)."""

    request: QueuedResourceInputs
    advance: Callable[[float], None]
    owner: str = OWNER
    hosts: int = 1
    wait: bool = True
    wait_deadline_s: int = 86_400
    state: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    lines: list[str] = field(default_factory=list[str])
    checkpoint: Callable[[], None] = lambda: None

    @property
    def label(self) -> str:
        return self.request.stack

    @property
    def holding(self) -> str:
        """What another stack file writes as `take_over` to have this one's request."""
        return f"{self.state['guard']['outputs']['identity']}-{self.state['request']['outputs']['made']}"

    def up(self) -> None:
        """Raises ResourceError where a step fails; what was accepted is in the state."""
        request = self.request
        guard = TpuStackGuardInputs(request.project, self.label, request.zones, self.owner, request.wanted_in)
        self._step("guard", dataclasses.asdict(guard))
        identity = {"identity": self.state["guard"]["outputs"].get("identity", "")}
        inputs = dataclasses.asdict(request) | identity
        self._step("request", inputs)
        made = self.state["request"]["outputs"]["made"]
        ready = SliceReadyInputs(inputs, made, self.hosts, self.wait, self.wait_deadline_s)
        self._step("ready", dataclasses.asdict(ready))

    def refresh(self) -> None:
        for name in list(self.state):
            self._read(name)

    def changes(self) -> list[str]:
        """What a preview would plan after a refresh."""
        for name in list(self.state):
            if RESOURCES[name].refresh_before_update:
                self._read(name)
        planned = [name for name in RESOURCES if name not in self.state or self.state[name]["failed"]]
        return planned + [name for name, entry in self.state.items() if RESOURCES[name].drift(entry["outputs"])]

    def destroy(self) -> None:
        for name in [name for name in reversed(RESOURCES) if name in self.state]:
            entry = self.state[name]
            RESOURCES[name].delete(self._context(name), entry["id"], entry["inputs"] | entry["outputs"])
            del self.state[name]
            self.checkpoint()

    def _step(self, name: str, inputs: dict[str, Any]) -> None:
        resource = RESOURCES[name]
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
        self._act(name, context, inputs, lambda: RESOURCES[name].create(context, RESOURCES[name].parse(inputs)))

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
        outputs = RESOURCES[name].read(self._context(name), entry["id"], entry["outputs"])
        if outputs is None:
            del self.state[name]
        else:
            entry["outputs"] |= outputs
        self.checkpoint()

    def _keep(self, name: str, identifier: str, inputs: dict[str, Any], outputs: dict[str, Any], failed: bool) -> None:
        entry = {"id": identifier, "inputs": inputs, "outputs": {**inputs, **outputs}, "failed": failed}
        self.state[name] = json.loads(json.dumps(entry))

    def _context(self, name: str) -> EmulatedContext:
        return EmulatedContext(self.advance, self.lines, RESOURCES[name].timeout_s)
