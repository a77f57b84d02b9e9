"""What a custom job's state means to people: why it waits, why it has ended, and whether another region may help. Pure.

Words of the service are from its page on training jobs and from reports of users (docs/a3.md); nothing here was read
off the real service.
"""

from __future__ import annotations

import re

from infra.targets.vertex.provider.vertex_api import CustomJob

_EXHAUSTED = 8  # of google.rpc
_STOCK = re.compile(r"resources are insufficient|stockout|not enough resources|zone_resource_pool_exhausted", re.I)
_QUOTA = re.compile(r"quota", re.I)
_IMAGE = re.compile(r"image|pull|artifact ?registry", re.I)
_WAITS = {
    "QUEUED": "in the queue: the service keeps a job there while other jobs use the project's quota up",
    "PENDING": "machines are looked for, and each then pulls the image",
    "CANCELLING": "it is ending, as somebody has asked",
    "PAUSED": "somebody has stopped it",
}


def is_shortage(job: CustomJob) -> bool:
    """Whether it ended without ever having run, for lack of machines or quota: another region may have them."""
    if job.start_time:
        return False
    return job.state == "EXPIRED" or job.code == _EXHAUSTED or bool(_STOCK.search(job.message))


def reason(job: CustomJob) -> str:
    """One clause on why it waits or has ended; empty where it runs or is done."""
    if job.state in ("FAILED", "CANCELLED") and job.message:
        kind = _kind(job)
        return f"{kind}: {job.message}" if kind else job.message
    if job.state == "EXPIRED":
        return job.message or "no machines in the time that it was to wait"
    if job.state == "CANCELLED":
        return "somebody has ended it"
    if job.state == "FAILED":
        return "no reason is given"
    return _WAITS.get(job.state, "")


def _kind(job: CustomJob) -> str:
    if job.start_time:
        return ""
    if _QUOTA.search(job.message):
        return "no quota"
    if _STOCK.search(job.message) or job.code == _EXHAUSTED:
        return "no machines"
    return "the image" if _IMAGE.search(job.message) else ""
