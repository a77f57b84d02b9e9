"""One custom job of a stack, wherever it is: ask for it once, find it again, wait until it runs.

The API knows no id of the caller's, and any number of jobs may have one name: that there is one and not two is kept by
labels. A job is looked for before it is asked for and after every answer that was lost; a second one of this state is
ended, whenever it appears. One of another state is refused. Refuses to own ending and deleting (vertex_cleanup.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infra import durations
from infra.google_cloud import retries
from infra.google_cloud.api_errors import ClosedError, FullError, GoneError, SilentError
from infra.names import MADE_LABEL, OWNER_LABEL, STACK_LABEL, STATE_LABEL
from infra.providers.resource import CancelledError, Context, DeadlineError, Outputs, ResourceError
from infra.targets.vertex.provider import vertex_api, vertex_cleanup, vertex_states
from infra.targets.vertex.provider.vertex_api import CustomJob
from infra.targets.vertex.provider.vertex_cleanup import ENDED, appears_s, made_of
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs, body, fingerprint

OUTPUTS = ("name", "region", "made", "state", "reason", "create_time")  # of a job, in the state of its resource
_DONE = ("SUCCEEDED", "PARTIALLY_SUCCEEDED")
_UNSEEN = ("", "CREATING", "QUEUED", "PENDING")
_ASK_AGAIN = 3


@dataclass(frozen=True)
class KnownJob:
    """What a state says of its job; nothing where it knows none."""

    name: str = ""
    region: str = ""
    made: str = ""
    state: str = ""

    @staticmethod
    def of(outputs: Mapping[str, Any]) -> KnownJob:
        return KnownJob(*(str(outputs.get(key, "")) for key in ("name", "region", "made", "state")))

    @property
    def on_its_way(self) -> bool:
        """It was not seen to run yet, so a killed `up` may have asked for it, or for the next, a moment ago."""
        return bool(self.made) and self.state in _UNSEEN


NOTHING = KnownJob()


class NothingMadeError(Exception):
    """No job was made, for a reason that the service gave."""

    def __init__(self, why: ResourceError) -> None:
        super().__init__(str(why))
        self.why = why


def outputs_of(job: CustomJob, doubles: Iterable[CustomJob] = ()) -> Outputs:
    """doubles: further jobs of the state, which should not be there."""
    return {
        "name": job.name,
        "region": job.region,
        "made": made_of(job),
        "state": job.state,
        "reason": vertex_states.reason(job),
        "create_time": job.create_time,
        "doubles": sorted(each.name for each in doubles),
    }


def owns(new: VertexJobInputs, known: KnownJob, job: CustomJob) -> bool:
    """Whether it is this state's: known to it, or asked for by an `up` that was killed."""
    if job.labels.get(STACK_LABEL, "") != new.stack:
        return False
    if known.made and made_of(job) == known.made:
        return True
    return bool(new.identity) and job.labels.get(STATE_LABEL, "") == new.identity


def ensure(context: Context, new: VertexJobInputs, known: KnownJob = NOTHING) -> Outputs:
    """The job, on the wanted terms: the one that is there, or a new one. Waits until it runs, where that is wanted.

    Raises ResourceError where one that has not ended is another state's.
    """
    ours = _look(context, new, known)
    kept = next((job for job in ours if _serves(new, job)), None)
    if kept:
        context.accept(new.identifier, outputs_of(kept))
    for job in ours:
        if job != kept:
            _give_up(context, new, job, is_double=bool(kept))
    full: dict[str, str] = {}  # by region
    for region in new.places(kept.region if kept else ""):
        try:
            job = kept if kept and region == kept.region else ask(context, new, region)
            return _until_it_runs(context, new, job) if new.wait else outputs_of(job)
        except FullError as error:
            full[region] = str(error)
            context.say(str(error))
    raise ResourceError(f"no region serves it: {'; '.join(full.values())}")


def find(context: Context, new: VertexJobInputs, known: KnownJob = NOTHING) -> tuple[CustomJob | None, list[CustomJob]]:
    """This state's job, and further ones of it; another's of that name is passed over.

    One that was on its way is waited for: it may not be listed yet.
    """
    until = context.now() + (appears_s() if known.on_its_way else 0)
    pauses = retries.polls()
    while True:
        ours = [job for job in _listed(context, new, known) if owns(new, known, job)]
        if ours:
            job, *doubles = ours
            return job, [each for each in doubles if each.state not in ENDED]
        if known.name and (job := vertex_api.get(context, known.name)) and owns(new, known, job):
            return job, []
        if context.now() >= until:
            return None, []
        context.report(f"{new.display_name}: waiting for it to appear")
        context.wait(next(pauses))


def ask(context: Context, new: VertexJobInputs, region: str) -> CustomJob:
    """A new job in this region. Raises FullError where the region cannot serve it."""
    made = uuid.uuid4().hex[:12]
    marks = {MADE_LABEL: f"{made}-{fingerprint(new)}"} | ({STATE_LABEL: new.identity} if new.identity else {})
    before = context.accepted
    asked = {"name": "", "region": region, "made": made, "state": "CREATING", "reason": "", "create_time": ""}
    context.accept(new.identifier, asked | {"doubles": []})  # it may be there soon: the next command looks
    try:
        return made_once(context, new.parent(region), body(new, marks))
    except NothingMadeError as error:
        context.accepted = before
        raise error.why from None


def made_once(context: Context, parent: str, job: Mapping[str, Any]) -> CustomJob:
    """A job that is made as it is said, with its label slipway-made. Raises NothingMadeError where it was refused.

    A call whose answer is lost is looked for as long as a job may be unseen, before another is made; should the first
    appear after that, whoever looks next ends one of them.
    """
    region = vertex_api.region_of(parent)
    lost: SilentError | None = None
    for _ in range(_ASK_AGAIN):
        try:
            return vertex_api.create(context, parent, job)
        except SilentError as error:
            lost = error
            if found := _appeared(context, parent, job):
                return found
        except (CancelledError, DeadlineError):
            raise
        except ResourceError as error:
            gone = isinstance(error, GoneError)
            why = FullError(f"{region}: Vertex AI is not there") if gone else error
            raise (NothingMadeError(why) if lost is None else why) from None
    assert lost
    raise lost


# --- parts ---


def _serves(new: VertexJobInputs, job: CustomJob) -> bool:
    """A job that is done serves too: nothing is left to do on these terms."""
    alike = job.labels.get(MADE_LABEL, "").partition("-")[2] == fingerprint(new)
    return alike and job.state not in ("CANCELLING", "FAILED", "CANCELLED", "EXPIRED")


def _look(context: Context, new: VertexJobInputs, known: KnownJob) -> list[CustomJob]:
    """This state's jobs, that which it knows first. Raises ResourceError beside one of another state."""
    jobs, _ = find(context, new, known) if known.on_its_way or known.name else (None, [])
    every = _listed(context, new, known)
    if jobs and jobs.name not in [job.name for job in every]:
        every = [jobs, *every]
    for job in every:
        if job.labels.get(STACK_LABEL) == new.stack and job.state not in ENDED and not owns(new, known, job):
            raise ResourceError(_not_ours(job))
    return [job for job in every if owns(new, known, job)]


def _listed(context: Context, new: VertexJobInputs, known: KnownJob) -> list[CustomJob]:
    """Jobs of that name: those that have not ended first, of these the one that is known, then the oldest.

    A region that is closed to the project counts as empty, unless the job was made in it.
    """
    found: list[CustomJob] = []
    for region in new.places(known.region):
        try:
            jobs = vertex_api.listed(context, new.parent(region), new.display_name)
            found += jobs or vertex_api.listed(context, new.parent(region), new.display_name)
        except ClosedError:
            if region == known.region:
                raise
    return sorted(found, key=lambda job: (job.state in ENDED, job.name != known.name, job.made_at))


def _appeared(context: Context, parent: str, asked: Mapping[str, Any]) -> CustomJob | None:
    """What a call without an answer has made; None where nothing comes of it."""
    until = context.now() + appears_s()
    pauses = retries.polls()
    while True:
        jobs = vertex_api.listed(context, parent, asked["displayName"])
        found = [job for job in jobs if job.labels.get(MADE_LABEL) == asked["labels"][MADE_LABEL]]
        if found or context.now() >= until:
            return min(found, key=lambda job: job.made_at, default=None)
        where = vertex_api.region_of(parent)
        context.report(f"no answer from {where}: looking whether there is a job all the same")
        context.wait(next(pauses))


def _until_it_runs(context: Context, new: VertexJobInputs, job: CustomJob) -> Outputs:
    """Raises FullError where it ends without machines, and ResourceError where it ends otherwise or takes too long."""
    began = context.now()
    pauses = retries.polls()
    known = KnownJob(job.name, job.region, made_of(job))
    while True:
        context.accept(new.identifier, outputs_of(job))
        if job.state in ENDED and job.state not in _DONE:
            raise _ended(context, job)
        if job.state in _DONE or job.state == "RUNNING":
            return outputs_of(job)
        waited = context.now() - began
        if waited >= new.wait_deadline_s:
            raise ResourceError(
                f"custom job {job.number} in {job.region} is {job.state} after "
                f"{durations.text(new.wait_deadline_s)} (wait_deadline): {vertex_states.reason(job)}; `pulumi up` goes "
                f"on waiting, `pulumi destroy` gives it up"
            )
        context.report(f"{job.region}: {job.state}, waited {_rounded(waited)}; {vertex_states.reason(job)}")
        context.wait(next(pauses))
        job = _again(context, new, known, job, waited)


def _again(context: Context, new: VertexJobInputs, known: KnownJob, job: CustomJob, waited_s: float) -> CustomJob:
    """The job as it is now. A second one of this state, which a call without an answer has left, is ended."""
    ours = [each for each in _listed(context, new, known) if owns(new, known, each)]
    for each in ours:
        if each.name != known.name and each.state not in ENDED:
            _give_up(context, new, each, is_double=True)
    found = next((each for each in ours if each.name == known.name), None) or vertex_api.get(context, known.name)
    if found is None and waited_s > appears_s():
        raise ResourceError(
            f"custom job {job.number} in {job.region} is gone: somebody has deleted it; run `pulumi up`"
        )
    return found or job


def _ended(context: Context, job: CustomJob) -> ResourceError:
    why = f"custom job {job.number} in {job.region} is {job.state}: {vertex_states.reason(job)}"
    if not vertex_states.is_shortage(job):
        return ResourceError(f"{why}; mend it, then run `pulumi up` again; its logs have what its containers said")
    vertex_cleanup.remove(context, job.name)
    return FullError(why)


def _give_up(context: Context, new: VertexJobInputs, job: CustomJob, is_double: bool) -> None:
    why = "a second one of this stack" if is_double else vertex_states.reason(job) or "on other terms"
    if not is_double:
        context.accept(new.identifier, outputs_of(job))
    context.say(f"custom job {job.number} in {job.region} is {job.state} ({why}): deleting it")
    vertex_cleanup.remove(context, job.name)


def _not_ours(job: CustomJob) -> str:
    owner = job.labels.get(OWNER_LABEL, "") or "nobody that its labels name"
    _, project, _, region, _, number = job.name.split("/")
    return (
        f"{job.display_name} in {region} is {job.state} and made at {job.create_time}, by {owner} from another clone "
        f"or backend, and this state does not know it; go on with it there; to have both, give this stack another name "
        f"(`slipway stack new` with --variant writes one), or if it may go: gcloud ai custom-jobs cancel {number} "
        f"--region={region} --project={project}"
    )


def _rounded(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds < 60 else f"{int(seconds // 60)}m"
