"""Replicas of jobs that are only pretended: they run until they are told how to end.

Owns the contract between a job and whatever runs its containers. Refuses to own real processes (replica_processes.py)
and what an exit means for the job (job_cloud.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from infra.emulators.vertex_jobs.job_records import EmulatedJob, Replica


class Replicas(Protocol):
    """Of all jobs. An exit code is that of a container: 128 + N where signal N ended it."""

    def start(self, job: EmulatedJob) -> None:
        """Starts all replicas of this attempt."""
        ...

    def exits(self, job: EmulatedJob) -> Mapping[str, int]:
        """By the names of replicas that have ended since the last start."""
        ...

    def stop(self, job: EmulatedJob) -> None:
        """Asks those that still run to end, and ends them if they do not. Returns at once."""
        ...

    def are_gone(self, job: EmulatedJob) -> bool: ...

    def restart(self, job: EmulatedJob, replica: Replica) -> None:
        """Ends one without a word and starts it again, as when its machine is taken for maintenance."""
        ...

    def close(self) -> None:
        """Ends all replicas of all jobs."""
        ...


class PretendedReplicas:
    """They end as `set_exit` says; one that is asked to end does so with 143."""

    def __init__(self) -> None:
        self._running = dict[str, dict[str, int]]()

    def set_exit(self, job: EmulatedJob, replica: str, code: int) -> None:
        self._running.setdefault(job.name, {})[replica] = code

    def start(self, job: EmulatedJob) -> None:
        self._running[job.name] = {}

    def exits(self, job: EmulatedJob) -> Mapping[str, int]:
        return self._running.get(job.name, {})

    def stop(self, job: EmulatedJob) -> None:
        ended = self._running.setdefault(job.name, {})
        for replica in job.replicas:
            ended.setdefault(replica.name, 143)

    def are_gone(self, job: EmulatedJob) -> bool:
        return len(self._running.get(job.name, {})) == len(job.replicas) or job.name not in self._running

    def restart(self, job: EmulatedJob, replica: Replica) -> None:
        self._running.setdefault(job.name, {}).pop(replica.name, None)

    def close(self) -> None:
        self._running.clear()
