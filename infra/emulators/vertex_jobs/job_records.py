"""What the emulated Vertex AI keeps of a custom job, and how it is set up.

Owns the states by name and what a client is shown of a job. Refuses to own when states change (job_cloud.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.emulators.rpc_errors import RpcStatus
from infra.emulators.vertex_jobs import job_messages


class JobState(StrEnum):
    """Those of the service that a custom job here can have; PAUSED, UPDATING and PARTIALLY_SUCCEEDED never happen."""

    QUEUED = "JOB_STATE_QUEUED"
    PENDING = "JOB_STATE_PENDING"
    RUNNING = "JOB_STATE_RUNNING"
    SUCCEEDED = "JOB_STATE_SUCCEEDED"
    FAILED = "JOB_STATE_FAILED"
    CANCELLING = "JOB_STATE_CANCELLING"
    CANCELLED = "JOB_STATE_CANCELLED"
    EXPIRED = "JOB_STATE_EXPIRED"


ENDED = frozenset((JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED))
HOLDS_MACHINES = frozenset((JobState.RUNNING, JobState.CANCELLING))


class MachineTerms(StrEnum):
    """Of which machines are had: Scheduling.Strategy without its deprecated spellings, and what a reservation is."""

    STANDARD = "STANDARD"
    SPOT = "SPOT"
    FLEX_START = "FLEX_START"
    RESERVED = "RESERVED"


@dataclass(frozen=True)
class JobTimings:
    """Seconds of the cloud's clock that things take. None of them was measured on the real service."""

    queue_s: float = 2  # QUEUED, with quota
    provision_s: float = 180  # PENDING, with machines; public logs show two to four minutes
    stockout_s: float = 1200  # PENDING until a job without machines has FAILED: three attempts
    cancel_s: float = 10  # CANCELLING, at least
    delete_s: float = 2  # until the operation of a delete is done
    run_s: float | None = None  # RUNNING of pretended replicas until all exit with 0; None: until they are told to


@dataclass(frozen=True)
class JobBehaviour:
    """What the documentation leaves open. A client should live with every combination."""

    project_numbers: bool = True  # seen: names in answers have the project's number, whatever the call had
    ended_jobs_refuse_cancel: bool = True  # 400 FAILED_PRECONDITION; else they answer {} and stay as they are
    listed_after_s: float = 0  # a job that was just made is missing from lists that long
    unserved_ends_as: JobState = JobState.EXPIRED  # flex-start after maxWaitDuration; or FAILED
    timed_out_ends_as: JobState = JobState.CANCELLED  # after `timeout`, as a pipeline of 2023 was seen to; or FAILED


@dataclass(frozen=True)
class Region:
    """A region of a project. `project` is its number: an id and its number are one place."""

    project: str
    name: str

    @staticmethod
    def of(name: str) -> Region:
        """The place in a name of something below a location, or of the location itself."""
        parts = name.split("/")
        return Region(project_number(parts[1]), parts[3])

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.name}"


def project_number(project: str) -> str:
    """Twelve digits derived from a project's id. A number in place of the id is returned as it is."""
    if project.isdecimal():
        return project
    return str(10**11 + int.from_bytes(hashlib.sha256(project.encode()).digest()) % (9 * 10**11))


@dataclass(frozen=True)
class Replica:
    """One container of a job. name: as errors and logs have it."""

    pool: int
    index: int

    @property
    def name(self) -> str:
        return f"workerpool{self.pool}-{self.index}"

    @property
    def is_primary(self) -> bool:
        return self.pool == 0


@dataclass
class EmulatedJob:
    """`message` is the CustomJob as it was asked for, without what only the service sets. Times are the cloud's."""

    region: Region
    project: str  # as the create had it: id or number
    id: str
    message: Any
    create_s: float
    update_s: float = 0
    start_s: float | None = None
    end_s: float | None = None
    state: JobState = JobState.QUEUED
    failure: RpcStatus | None = None
    ready_s: float = 0  # when its state may change, with all that it needs
    gives_up_s: float | None = None  # of PENDING: when it no longer waits for machines
    attempt: int = 0  # restarts of the whole job
    outcome: tuple[JobState, RpcStatus | None] | None = None  # what it becomes once its replicas are gone
    exits: dict[str, int] = field(default_factory=dict[str, int])  # of replicas that have ended, in this attempt

    @property
    def name(self) -> str:
        """With the project's number."""
        return f"{self.region.parent}/customJobs/{self.id}"

    @property
    def replicas(self) -> tuple[Replica, ...]:
        pools = self.message.job_spec.worker_pool_specs
        return tuple(Replica(pool, index) for pool, spec in enumerate(pools) for index in range(spec.replica_count))

    @property
    def scheduling(self) -> Any:
        return self.message.job_spec.scheduling

    @property
    def terms(self) -> MachineTerms:
        if self.reservation:
            return MachineTerms.RESERVED
        strategy = job_messages.enum_name(self.scheduling, "strategy")
        return {"SPOT": MachineTerms.SPOT, "LOW_COST": MachineTerms.SPOT, "FLEX_START": MachineTerms.FLEX_START}.get(
            strategy, MachineTerms.STANDARD
        )

    @property
    def reservation(self) -> str:
        """Full name of the specific reservation of its first pool; "" where it has none."""
        values = self.message.job_spec.worker_pool_specs[0].machine_spec.reservation_affinity.values
        return values[0] if values else ""

    @property
    def machines(self) -> dict[str, int]:
        """How many of which machine type it needs."""
        counts = dict[str, int]()
        for pool in self.message.job_spec.worker_pool_specs:
            if pool.replica_count:
                machine = pool.machine_spec.machine_type
                counts[machine] = counts.get(machine, 0) + pool.replica_count
        return counts

    def view(self, numbers: bool) -> Any:
        """The CustomJob that a client is shown."""
        shown = type(self.message)()
        shown.CopyFrom(self.message)
        project = self.region.project if numbers else self.project
        shown.name = f"projects/{project}/locations/{self.region.name}/customJobs/{self.id}"
        shown.state = shown.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_name[self.state].number
        times = {"create_time": self.create_s, "update_time": self.update_s}
        for name, seconds in (times | {"start_time": self.start_s, "end_time": self.end_s}).items():
            if seconds is not None:
                job_messages.set_time(getattr(shown, name), seconds)
        if self.failure:
            shown.error.code, shown.error.message = self.failure.code, self.failure.message
        return shown
