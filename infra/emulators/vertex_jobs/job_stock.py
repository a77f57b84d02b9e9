"""How many machines there are, whose quota allows how many, and which reservations: what a job may get now.

Owns the limits and who uses them. Refuses to own what happens to a job that gets nothing (job_cloud.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from infra.emulators.vertex_jobs import machines
from infra.emulators.vertex_jobs.job_records import HOLDS_MACHINES, EmulatedJob, JobState, MachineTerms, Region


@dataclass(frozen=True)
class MachineLimit:
    """So many machines of a type in a region. terms: of which; None counts those of all terms but reservations."""

    region: str
    machine: str
    terms: MachineTerms | None = None

    def concerns(self, job: EmulatedJob) -> bool:
        terms = job.terms is self.terms if self.terms else job.terms is not MachineTerms.RESERVED
        return terms and job.region.name == self.region and self.machine in job.machines


@dataclass
class JobStock:
    """None of it is limited until somebody limits it."""

    machines: dict[MachineLimit, int] = field(default_factory=dict[MachineLimit, int])
    quotas: dict[tuple[Region, str], int] = field(default_factory=dict[tuple[Region, str], int])
    reservations: dict[str, int] = field(default_factory=dict[str, int])  # by full name

    def needs(self, job: EmulatedJob) -> dict[str, int]:
        """Units of each quota metric."""
        units = dict[str, int]()
        for pool in job.message.job_spec.worker_pool_specs:
            use = machines.quota_use(pool.machine_spec, pool.replica_count, job.terms) if pool.replica_count else None
            if use:
                units[use.metric] = units.get(use.metric, 0) + use.units
        return units

    def never_fits(self, job: EmulatedJob) -> list[str]:
        """Quota metrics of which the job alone needs more than there is."""
        return [metric for metric, units in self.needs(job).items() if units > self._quota(job.region, metric, units)]

    def over_quota(self, job: EmulatedJob, jobs: Iterable[EmulatedJob]) -> list[str]:
        """Quota metrics that this job and those that run exceed together."""
        running = [each for each in jobs if each.region == job.region and _counts(each)]
        over = list[str]()
        for metric, units in self.needs(job).items():
            used = sum(self.needs(each).get(metric, 0) for each in running)
            if used + units > self._quota(job.region, metric, used + units):
                over.append(metric)
        return over

    def has_machines(self, job: EmulatedJob, jobs: Iterable[EmulatedJob]) -> bool:
        holding = [each for each in jobs if each.state in HOLDS_MACHINES and each is not job]
        if job.reservation:
            held = sum(sum(each.machines.values()) for each in holding if each.reservation == job.reservation)
            return held + sum(job.machines.values()) <= self.reservations.get(job.reservation, 0)
        for limit, count in self.machines.items():
            if limit.concerns(job):
                held = sum(each.machines[limit.machine] for each in holding if limit.concerns(each))
                if held + job.machines[limit.machine] > count:
                    return False
        return True

    def _quota(self, region: Region, metric: str, unlimited: int) -> int:
        return self.quotas.get((region, metric), unlimited)


def _counts(job: EmulatedJob) -> bool:
    return job.state is JobState.PENDING or job.state in HOLDS_MACHINES
