"""The life of custom jobs: queued, waiting for machines, running, ended; and the cloud's clock.

Written from Google's page "Understand the custom training service": the job ends well when its primary replica exits
with 0; any other exit ends it, and the codes of SIGABRT and SIGSEGV first restart it three times; a job without
machines fails after three attempts; a preempted Spot job is restarted six times; a cancelled job has code 1. Our
choice: all that JobBehaviour and JobTimings say, and that a job that is restarted is PENDING.
Refuses to own what clients ask (job_calls.py), what there is (job_stock.py) and what runs (replicas.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from urllib.parse import quote

from infra.emulators.rpc_errors import Code, RpcStatus
from infra.emulators.vertex_jobs import job_messages
from infra.emulators.vertex_jobs.job_log import JobLog
from infra.emulators.vertex_jobs.job_records import (
    ENDED,
    EmulatedJob,
    JobBehaviour,
    JobState,
    JobTimings,
    MachineTerms,
    Replica,
)
from infra.emulators.vertex_jobs.job_stock import JobStock
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses
from infra.emulators.vertex_jobs.replicas import PretendedReplicas, Replicas

SERVICE_TASK = "service"  # the task_name of what the service itself writes into a job's log
_TRANSIENT_EXITS = (6, 11, 134, 139)
_CRASH_RESTARTS, _PREEMPTION_RESTARTS = 3, 6
_DEFAULT_TIMEOUT_S, _DEFAULT_MAX_WAIT_S = 7 * 86_400.0, 86_400.0


@dataclass(frozen=True)
class JobEvent:
    """A line for people: what became of a job."""

    time_s: float
    job: str
    text: str


@dataclass
class JobCloud:
    """All jobs by name, and what they and the service have written."""

    timings: JobTimings = field(default_factory=JobTimings)
    behaviour: JobBehaviour = field(default_factory=JobBehaviour)
    replicas: Replicas = field(default_factory=PretendedReplicas)
    stock: JobStock = field(default_factory=JobStock)
    now_s: float = field(default_factory=time.time)
    jobs: dict[str, EmulatedJob] = field(default_factory=dict[str, EmulatedJob])
    events: list[JobEvent] = field(default_factory=list[JobEvent])
    log: JobLog = field(default_factory=JobLog)

    def __post_init__(self) -> None:
        if isinstance(self.replicas, ReplicaProcesses):
            self.replicas.print_line = self._say

    # --- what calls do ---

    def add(self, job: EmulatedJob) -> None:
        job.ready_s = self.now_s + self.timings.queue_s
        self.jobs[job.name] = job
        self._log(job, "asked for")
        self.settle()

    def cancel(self, job: EmulatedJob) -> None:
        """Nothing happens to one that is being cancelled or has ended."""
        if job.state in ENDED or job.state is JobState.CANCELLING:
            return
        ran = job.state is JobState.RUNNING
        job.outcome = (JobState.CANCELLED, RpcStatus(Code.CANCELLED.number, "CANCELED"))
        job.ready_s = self.now_s + self.timings.cancel_s
        self._move(job, JobState.CANCELLING)
        if ran:
            self.replicas.stop(job)
        self.settle()

    def remove(self, job: EmulatedJob) -> None:
        self._log(job, "deleted")
        del self.jobs[job.name]

    # --- what scripts do ---

    def preempt(self, job: EmulatedJob) -> None:
        """Compute Engine takes back its machines. Raises ValueError for a job that has none that can be taken."""
        if job.terms is not MachineTerms.SPOT or job.state is not JobState.RUNNING:
            raise ValueError(
                f"{job.name} is {job.state} with {job.terms} machines; only running SPOT jobs are preempted"
            )
        self._log(job, "preempted")
        self._stop_attempt(job, _PREEMPTION_RESTARTS, self._stockout(job))
        self.settle()

    def maintain(self, job: EmulatedJob, replica: Replica) -> None:
        """A replica's machine is replaced: it is started again, and with restartJobOnWorkerRestart all of the job."""
        if job.state is not JobState.RUNNING or job.outcome:
            raise ValueError(f"{job.name} is {job.state}; only running jobs have machines")
        self._log(job, f"the machine of {replica.name} is replaced")
        if job.scheduling.restart_job_on_worker_restart and not job.scheduling.disable_retries:
            self.replicas.stop(job)
            job.outcome = (JobState.PENDING, None)
        else:
            self.replicas.restart(job, replica)
        self.settle()

    # --- time ---

    def advance(self, seconds: float) -> None:
        target = self.now_s + max(0.0, seconds)
        while True:
            self.settle()
            due = min((due for job in self.jobs.values() for due in self._due(job)), default=target)
            if due >= target:
                break
            self.now_s = due
        self.now_s = target
        self.settle()

    def settle(self) -> None:
        """Everything that may happen now happens."""
        changes = True
        while changes:
            changes = sum(self._step(job) for job in list(self.jobs.values())) > 0

    def _due(self, job: EmulatedJob) -> list[float]:
        """Times to come at which something may happen to a job."""
        times = [job.ready_s, job.gives_up_s, self._expiry_s(job), self._timeout_s(job), self._runs_until_s(job)]
        return [each for each in times if each is not None and each > self.now_s]

    def _step(self, job: EmulatedJob) -> bool:
        """Whether something happened."""
        if job.outcome:
            return self._end_if_gone(job)
        match job.state:
            case JobState.QUEUED | JobState.PENDING if self._is_past(self._expiry_s(job)):
                self._end(job, self.behaviour.unserved_ends_as, self._stockout(job))
            case JobState.QUEUED if job.ready_s <= self.now_s and not self.stock.over_quota(job, self.jobs.values()):
                self._wait_for_machines(job)
            case JobState.PENDING if job.ready_s <= self.now_s and self.stock.has_machines(job, self.jobs.values()):
                self._run(job)
            case JobState.PENDING if self._is_past(job.gives_up_s):
                self._end(job, JobState.FAILED, self._stockout(job))
            case JobState.RUNNING:
                return self._look(job)
            case _:
                return False
        return True

    def _wait_for_machines(self, job: EmulatedJob) -> None:
        job.ready_s = self.now_s + self.timings.provision_s
        waits = job.terms is MachineTerms.FLEX_START
        job.gives_up_s = None if waits else self.now_s + self.timings.stockout_s
        self._move(job, JobState.PENDING)
        self._tell(job, "Waiting for job to be provisioned.")

    def _run(self, job: EmulatedJob) -> None:
        job.exits = {}
        job.start_s = job.start_s or self.now_s
        job.ready_s = self.now_s
        job.gives_up_s = None
        self._move(job, JobState.RUNNING)
        self._tell(job, "Job is running.")
        self.replicas.start(job)

    def _look(self, job: EmulatedJob) -> bool:
        """At the replicas of a running job."""
        if self._is_past(self._runs_until_s(job)) and isinstance(self.replicas, PretendedReplicas):
            for replica in job.replicas:
                self.replicas.set_exit(job, replica.name, 0)
        exits = dict(self.replicas.exits(job))
        changed = exits != job.exits
        job.exits = exits
        primary = next(replica.name for replica in job.replicas if replica.is_primary)
        failed = [(name, code) for name, code in exits.items() if code]
        if failed:
            self._stop_attempt(
                job, _CRASH_RESTARTS if failed[0][1] in _TRANSIENT_EXITS else 0, _exited(job, *failed[0])
            )
        elif primary in exits:
            self._end(job, JobState.SUCCEEDED, None)
        elif self._is_past(self._timeout_s(job)):
            status = RpcStatus(Code.CANCELLED.number, "CANCELED")
            self._end(job, self.behaviour.timed_out_ends_as, status)
        else:
            return changed
        return True

    def _stop_attempt(self, job: EmulatedJob, restarts: int, failure: RpcStatus) -> None:
        """The job begins again, or ends where that has happened often enough."""
        if job.scheduling.disable_retries or job.attempt >= restarts:
            self._end(job, JobState.FAILED, failure)
            return
        job.attempt += 1
        self._tell(job, failure.message, "ERROR")
        self.replicas.stop(job)
        job.outcome = (JobState.PENDING, None)

    def _end(self, job: EmulatedJob, state: JobState, failure: RpcStatus | None) -> None:
        """Once its replicas are gone."""
        if job.state is JobState.RUNNING:
            self.replicas.stop(job)
        job.outcome = (state, failure)

    def _end_if_gone(self, job: EmulatedJob) -> bool:
        assert job.outcome
        if job.start_s is not None and not self.replicas.are_gone(job):
            return False
        if job.state is JobState.CANCELLING and job.ready_s > self.now_s:
            return False
        (state, job.failure), job.outcome = job.outcome, None
        if state is JobState.PENDING:
            self._wait_for_machines(job)
            return True
        job.end_s = self.now_s
        self._move(job, state)
        if job.failure and state is JobState.FAILED:
            self._tell(job, job.failure.message, "ERROR")
        said = {JobState.SUCCEEDED: "Job completed successfully.", JobState.CANCELLED: "Job is cancelled."}
        self._tell(job, said.get(state, "Job failed."), "INFO" if state is JobState.SUCCEEDED else "ERROR")
        return True

    # --- parts ---

    def _is_past(self, time_s: float | None) -> bool:
        return time_s is not None and time_s <= self.now_s

    def _expiry_s(self, job: EmulatedJob) -> float | None:
        """When a job that is queued for machines is given up; None is never. 0 waits forever."""
        if job.terms is not MachineTerms.FLEX_START or job.state not in (JobState.QUEUED, JobState.PENDING):
            return None
        if not job.scheduling.HasField("max_wait_duration"):
            return job.create_s + _DEFAULT_MAX_WAIT_S
        return job.create_s + (job_messages.seconds_of(job.scheduling.max_wait_duration) or float("inf"))

    def _timeout_s(self, job: EmulatedJob) -> float | None:
        if job.state is not JobState.RUNNING or job.start_s is None:
            return None
        return job.start_s + (job_messages.seconds_of(job.scheduling.timeout) or _DEFAULT_TIMEOUT_S)

    def _runs_until_s(self, job: EmulatedJob) -> float | None:
        pretended = isinstance(self.replicas, PretendedReplicas) and job.state is JobState.RUNNING
        return job.ready_s + self.timings.run_s if pretended and self.timings.run_s is not None else None

    def _stockout(self, job: EmulatedJob) -> RpcStatus:
        sentence = f"Resources are insufficient in region: {job.region.name}. "
        return RpcStatus(
            Code.RESOURCE_EXHAUSTED.number, sentence + "Please try a different region or use a different accelerator."
        )

    def _move(self, job: EmulatedJob, state: JobState) -> None:
        job.state, job.update_s = state, self.now_s
        self._log(job, f"{state.removeprefix('JOB_STATE_')}{f': {job.failure.message}' if job.failure else ''}")

    def _log(self, job: EmulatedJob, text: str) -> None:
        self.events.append(JobEvent(self.now_s, job.name, text))
        del self.events[:-1000]

    def _tell(self, job: EmulatedJob, text: str, severity: str = "INFO") -> None:
        self._say(job, SERVICE_TASK, severity, text)

    def _say(self, job: EmulatedJob, task: str, severity: str, text: str) -> None:
        self.log.say(job, task, severity, text, self.now_s)


def _exited(job: EmulatedJob, replica: str, code: int) -> RpcStatus:
    """Seen word for word in 2022, with code 3; newer reports have `Termination reason: Error.` in it."""
    where = f'resource.type="ml_job"\nresource.labels.job_id="{job.id}"'
    sentence = (
        f"The replica {replica} exited with a non-zero status of {code}. To find out more about why your job exited "
        f"please check the logs: https://console.cloud.google.com/logs/viewer?project={job.region.project}"
        f"&resource=ml_job%2Fjob_id%2F{job.id}&advancedFilter={quote(where, safe='')}"
    )
    return RpcStatus(Code.INVALID_ARGUMENT.number, sentence)
