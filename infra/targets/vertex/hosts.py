"""`Hosts` of target vertex: replicas of the stack's custom job, as the service tells of the job.

A replica is a host. How far its training is, the run's record says (infra/runs/run_history.py), and its log is in Cloud
Logging. Jobs are the stack's by label, whichever clone has asked for them. Refuses to own what a job's state means
(provider/vertex_states.py). Not run on real hardware.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from infra.google_cloud.api_errors import ClosedError
from infra.google_cloud.asking import asking
from infra.names import MADE_LABEL, STACK_LABEL, stack_label
from infra.providers.resource import Context
from infra.runs import run_history
from infra.runs.recorded_hosts import RecordedHosts
from infra.sentences import SentenceError
from infra.stack_file.settings import from_file
from infra.targets.errors import TargetError
from infra.targets.hosts import HostView
from infra.targets.phases import BOOTING, LOST
from infra.targets.vertex.orphans import bundle_of
from infra.targets.vertex.provider import vertex_api, vertex_cleanup, vertex_jobs, vertex_logs, vertex_states
from infra.targets.vertex.provider.vertex_api import CustomJob
from infra.targets.vertex.provider.vertex_cleanup import ENDED
from infra.targets.vertex.settings import VertexSettings
from training.host_status import Phase

_ANSWERS_S, _ENDED_S = 60.0, 900.0
_FRESH_S = 10.0  # of an answer: `watch` asks twice a second
_PAUSE_S = 2.0
_ENDED_AS = {
    "SUCCEEDED": Phase.FINISHED,
    "PARTIALLY_SUCCEEDED": Phase.FINISHED,
    "CANCELLED": Phase.INTERRUPTED,
    "CANCELLING": Phase.INTERRUPTED,
}


class VertexHosts(RecordedHosts):
    """The replicas of one stack."""

    def __init__(self, stack: str, now: Callable[[], float] = time.monotonic) -> None:
        settings = from_file(stack)
        assert isinstance(settings, VertexSettings)
        super().__init__(settings)
        self._settings = settings
        self._now = now
        self._views: Sequence[HostView] = ()
        self._fresh_until = 0.0

    def states(self) -> Sequence[HostView]:
        if self._now() >= self._fresh_until:
            self._views = self._ask()
            self._fresh_until = self._now() + _FRESH_S
        return self._views

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        count = self._settings.replicas
        if index not in range(count):
            raise LookupError(f"stack '{self.stack}' has hosts 0 to {count - 1}")
        seen: set[str] = set()
        since = ""
        while True:
            job = self._job()
            if job is None:
                raise TargetError(f"stack '{self.stack}' has no custom job; run: pulumi up --stack {self.stack}")
            with asking(lambda _: None, _ANSWERS_S) as context:
                task = vertex_logs.replica(index)
                for entry in vertex_logs.entries(context, self._settings.project, job.number, task, since):
                    if entry.identifier not in seen:
                        seen.add(entry.identifier)
                        since = entry.time
                        yield entry.text
            if not follow or job.state in ENDED:
                return
            time.sleep(_PAUSE_S)

    def stop(self, progress: Callable[[str], None]) -> None:
        """The service ends containers of a job that is cancelled, which save a checkpoint first."""
        jobs = [job for job in self._jobs() if job.state not in ENDED]
        with asking(progress, _ENDED_S) as context:
            for job in jobs:
                vertex_api.cancel(context, job.name)
            for job in jobs:
                while (found := vertex_api.get(context, job.name)) and found.state not in ENDED:
                    progress(f"custom job {job.number} is {found.state}")
                    context.wait(_PAUSE_S)
        self._fresh_until = 0.0

    def start(self) -> None:
        """A job that has ended cannot go on: one like it is made, in its place and on its terms."""
        job = self._job()
        if job is None:
            raise TargetError(f"stack '{self.stack}' has no custom job; run: pulumi up --stack {self.stack}")
        if job.state not in ENDED:
            return
        _, _, terms = job.labels.get(MADE_LABEL, "").partition("-")
        labels = dict(job.labels) | {MADE_LABEL: f"{uuid.uuid4().hex[:12]}-{terms}"}
        like = {"displayName": job.display_name, "labels": labels, "jobSpec": job.spec}
        with asking(lambda _: None, _ENDED_S) as context:
            try:
                vertex_jobs.made_once(context, job.name.partition("/customJobs/")[0], like)
            except vertex_jobs.NothingMadeError as error:
                raise error.why from None
        self._fresh_until = 0.0

    def _ask(self) -> list[HostView]:
        job = self._job()
        if job is None:
            return []
        why = vertex_states.reason(job)
        if job.state in ("QUEUED", "PENDING") and (said := self._service_says(job)):
            why = f"{why}; the service says: {said}"
        views = [self._view(index, job, why) for index in range(self._settings.replicas)]
        return self._with_training(views, job)

    def _view(self, index: int, job: CustomJob, why: str) -> HostView:
        name = f"{job.number} {vertex_logs.replica(index)}"
        phase = _ENDED_AS.get(job.state, Phase.FAILED) if job.state in (*ENDED, "CANCELLING") else BOOTING
        since = job.end_time or job.start_time or job.create_time
        age_s = max(0.0, time.time() - datetime.fromisoformat(since).timestamp())
        number = index // self._settings.row.hosts
        detail = {"job": job.name, "region": job.region, "job_state": job.state}
        return HostView(index, number, name, phase, why, bundle_of(job), age_s, detail=detail)

    def _with_training(self, views: list[HostView], job: CustomJob) -> list[HostView]:
        """With what replicas have left in the run's record since the job was made: some start before others."""
        if not job.start_time:
            return views
        made = job.made_at.timestamp()
        try:
            words = {view.index: view for view in self.left_behind() if time.time() - view.age_s >= made}
            return [self._of_training(view, words.get(view.index), job) for view in views]
        except SentenceError as error:
            return [replace(view, reason=view.reason or f"how far it is cannot be read: {error}") for view in views]

    def _of_training(self, view: HostView, word: HostView | None, job: CustomJob) -> HostView:
        if word is None:
            return view
        progress = replace(view, step=word.step, steps=word.steps, loss=word.loss, saved=word.saved)
        progress = replace(progress, started_by=word.started_by)
        if word.phase != LOST:  # it has said how it ended
            return replace(progress, phase=word.phase, reason=word.reason or view.reason)
        if job.state != "RUNNING":
            return progress
        spec = self.run_spec()
        pace = run_history.recent_pace(spec, view.index)
        if pace is None:
            return replace(progress, phase=Phase.STARTING)
        left = (word.steps or spec.steps) - (word.step or 0)
        return replace(
            progress,
            phase=Phase.TRAINING,
            tokens_per_s=spec.tokens_per_step / pace.step_s,
            tflops_per_s=pace.tflops / pace.step_s if pace.tflops else None,
            eta_s=left * pace.step_s,
        )

    def _service_says(self, job: CustomJob) -> str:
        with asking(lambda _: None, _ANSWERS_S) as context:
            entry = vertex_logs.newest(context, self._settings.project, job.number, vertex_logs.SERVICE)
        return entry.text if entry else ""

    def _job(self) -> CustomJob | None:
        """The one that has not ended, else the newest."""
        return next(iter(self._jobs()), None)

    def _jobs(self) -> list[CustomJob]:
        settings, found = self._settings, list[CustomJob]()
        with asking(lambda _: None, _ANSWERS_S) as context:
            for region in settings.regions_in_order:
                found += _listed(context, f"projects/{settings.project}/locations/{region}", settings.job)
        ours = [job for job in found if job.labels.get(STACK_LABEL) == stack_label(self.stack)]
        return sorted(ours, key=lambda job: (job.state in vertex_cleanup.ENDED, -job.made_at.timestamp()))


def _listed(context: Context, parent: str, name: str) -> list[CustomJob]:
    try:
        return vertex_api.listed(context, parent, name) or vertex_api.listed(context, parent, name)
    except ClosedError:
        return []
