"""A vertex stack without the engine: its resources in order, over emulated_engine.py; and its jobs in the emulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from infra.emulators.vertex_jobs import JobCloud
from infra.names import OWNER_LABEL, STACK_LABEL, STATE_LABEL
from infra.providers.resource import Resource
from infra.targets.vertex.provider.vertex_guard_resource import VertexStackGuardResource
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs, VertexStackGuardInputs
from infra.targets.vertex.provider.vertex_job_resource import VertexJobResource
from tests.unit.emulated_engine import EmulatedEngine

OWNER = "alice"
REGIONS = ["us-central1", "us-east4"]
MACHINE = "a3-megagpu-8g"


def wanted(stack: str = "s", **changes: Any) -> VertexJobInputs:
    job = VertexJobInputs(
        project="p",
        regions=REGIONS,
        display_name=f"q-{stack}",
        replicas=2,
        machine_type=MACHINE,
        accelerator_type="NVIDIA_H100_MEGA_80GB",
        accelerator_count=8,
        boot_disk_gb=100,
        image="python:3.12",
        script="true",
        environment={"SLIPWAY_BUNDLE": "a" * 16},
        service_account="sa@p.iam.gserviceaccount.com",
        tier="on-demand",
        labels={STACK_LABEL: stack, OWNER_LABEL: OWNER},
    )
    return dataclasses.replace(job, **changes)


@dataclass
class VertexStack(EmulatedEngine):
    job: VertexJobInputs
    advance: Callable[[float], None]
    owner: str = OWNER
    state: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    lines: list[str] = field(default_factory=list[str])
    checkpoint: Callable[[], None] = lambda: None
    resources: ClassVar[Mapping[str, Resource[Any]]] = {
        "guard": VertexStackGuardResource(),
        "job": VertexJobResource(),
    }

    @property
    def label(self) -> str:
        return self.job.stack

    @property
    def identity(self) -> str:
        return str(self.state["guard"]["outputs"]["identity"])

    @property
    def outputs(self) -> dict[str, Any]:
        """Of the job."""
        return self.state["job"]["outputs"]

    def up(self) -> None:
        """Raises ResourceError where a step fails; what was accepted is in the state."""
        job = self.job
        self._step("guard", vars(VertexStackGuardInputs(job.project, self.label, job.regions, self.owner)))
        self._step("job", dataclasses.asdict(job) | {"identity": self.identity})


def jobs_in(cloud: JobCloud, identity: str = "") -> dict[str, str]:
    """States of jobs by name, all or those of one state of a stack."""
    return {
        name: job.state.removeprefix("JOB_STATE_")
        for name, job in cloud.jobs.items()
        if not identity or job.message.labels.get(STATE_LABEL) == identity
    }
