"""A tpu-vm stack without the engine: its resources in order, over emulated_engine.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from infra.emulators.tpu_api import Cloud
from infra.names import OWNER_LABEL, STACK_LABEL
from infra.providers.resource import Resource
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
from tests.unit.emulated_engine import EmulatedEngine

OWNER = "alice"
ZONES = ["us-east5-b", "us-east5-a"]
RESOURCES: dict[str, Resource[Any]] = {
    "guard": TpuStackGuardResource(),
    "request": TpuRequestResource(),
    "ready": SliceReadyResource(),
}


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
class Stack(EmulatedEngine):
    request: QueuedResourceInputs
    advance: Callable[[float], None]
    owner: str = OWNER
    hosts: int = 1
    wait: bool = True
    wait_deadline_s: int = 86_400
    state: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    lines: list[str] = field(default_factory=list[str])
    checkpoint: Callable[[], None] = lambda: None
    resources: ClassVar[Mapping[str, Resource[Any]]] = RESOURCES

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
