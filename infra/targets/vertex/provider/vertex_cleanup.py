"""Ending and deleting custom jobs of Vertex AI so that nothing is left: cancel, wait, delete, look again.

Owns that what runs is cancelled first, and how long what was just asked for may stay unseen. Refuses to own whose a job
is (vertex_jobs.py) and who asks for it: a job's own delete, the stack's guard, `slipway orphans`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from infra.google_cloud import retries
from infra.google_cloud.api_errors import ClosedError
from infra.names import MADE_LABEL
from infra.providers.resource import Context, ResourceError
from infra.targets.vertex.provider import vertex_api
from infra.targets.vertex.provider.vertex_api import CustomJob

ENDED = ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
_SURE = 2  # an empty list and an answer that says nothing read the same
# How long a job that was just made may not be listed. Nobody has said so of Vertex AI; the Cloud TPU API was seen to
# take some seconds.
_APPEARS_S = 60.0
APPEARS = "SLIPWAY_VERTEX_APPEARS_S"  # another length of it, for an emulator whose clock is its own
SETTLE_POLL_S = 10.0
# Project and stack of each job that this process has deleted. For any other stack the guard has to wait: a killed `up`
# may have asked for something a moment ago.
_deleted: set[tuple[str, str]] = set()

type Wanted = Callable[[CustomJob], bool]


def appears_s() -> float:
    """Seconds for which it is not believed that what was just asked for is not there."""
    return float(os.environ.get(APPEARS) or _APPEARS_S)


def note_deleted(project: str, stack: str) -> None:
    """The stack's job is gone, and whatever was asked for in its place would be seen by now."""
    _deleted.add((project, stack))


def settle_s(project: str, stack: str) -> float:
    """How long to wait for what a killed `up` may have asked for: 0 once the stack's job was deleted."""
    was_known = (project, stack) in _deleted
    _deleted.discard((project, stack))
    return 0.0 if was_known else appears_s()


def made_of(job: CustomJob) -> str:
    """Which request for a job it is of; empty where Slipway has not made it."""
    return job.labels.get(MADE_LABEL, "").partition("-")[0]


def remove(context: Context, name: str) -> None:
    """Cancel the job where it has not ended, delete it, and wait until it is gone."""
    pauses = retries.polls()
    while (job := vertex_api.get(context, name)) is not None:
        if job.state in ENDED:
            vertex_api.delete(context, name)
            context.report(f"custom job {job.number}: deleting")
        elif job.state != "CANCELLING":
            vertex_api.cancel(context, name)
            context.report(f"custom job {job.number} is {job.state}: cancelling")
        else:
            context.report(f"custom job {job.number}: ending")
        context.wait(next(pauses))


def remove_wanted(
    context: Context, parents: Collection[str], wanted: Wanted, settle_s: float = 0, made_in: str = "", name: str = ""
) -> list[str]:
    """Remove what is wanted in each region, and look again until nothing is left. Returns names.

    For `settle_s` more an empty region is not believed: what was asked for a moment ago may not be listed yet. A region
    that is closed to the project is passed over, but for `made_in`, where something was made: a ResourceError. name: of
    the jobs that are looked at; empty: all.
    """
    removed: dict[str, None] = {}
    until = context.now() + settle_s
    while True:
        last = context.now() >= until
        for parent in parents:
            try:
                _remove_listed(context, parent, wanted, removed, _SURE if last else 1, name)
            except ClosedError as error:
                region = vertex_api.region_of(parent)
                if parent == made_in:
                    raise ResourceError(
                        f"{region} has been closed to the project, and what was made there may run on and be billed "
                        f"({error}); have it opened again, then repeat the command"
                    ) from None
                context.say(f"{region} was not searched, and nothing can be asked for there: {error}")
        if last:
            return list(removed)
        context.report("looking whether something that was asked for a moment ago appears")
        context.wait(min(SETTLE_POLL_S, until - context.now()))


def _remove_listed(
    context: Context, parent: str, wanted: Wanted, removed: dict[str, None], sure: int, name: str
) -> None:
    """sure: how many answers in a row without any are believed."""
    without = 0
    while without < sure:
        unwanted = [job for job in vertex_api.listed(context, parent, name) if wanted(job)]
        without = 0 if unwanted else without + 1
        for job in unwanted:
            removed[job.name] = None
            remove(context, job.name)
