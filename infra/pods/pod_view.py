"""What a pod is doing, and if it does not run, why: from what the API server says of it, in one line. Pure.

The reasons are a closed list: no node and by which constraint, the image, its configuration, a place in the queue, a
quota, an admission that was refused, taken by the cluster, ended by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from infra.targets.phases import BOOTING, LOST
from training.host_status import Phase

type Found = Mapping[str, Any]

_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


def phase_of(pod: Found) -> tuple[str, str]:
    """Its phase as a host's, and why it is not running; of a pod that runs, `training` until it says more itself."""
    status = pod["status"]
    phase = status.get("phase", "Pending")
    if taken := _condition(pod, "DisruptionTarget"):
        return LOST, f"the cluster took it away: {_sentence(taken)}"
    if phase == "Pending":
        return BOOTING, _why_pending(pod)
    if phase == "Running":
        return (Phase.BOOTSTRAPPING if not _started(pod) else Phase.TRAINING), ""
    if phase == "Succeeded":
        return Phase.FINISHED, ""
    return Phase.FAILED, _why_failed(pod)


def why_no_pods(found: Found, jobs: Sequence[Found], events: Sequence[Found]) -> str:
    """Why a JobSet has none: it waits in a queue, or what the server refused when they were to be made."""
    if found["spec"].get("suspend"):
        queue = found["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        return f"waits in queue {queue}" if queue else "is suspended"
    for event in reversed(events):
        if event.get("reason") in ("FailedCreate", "JobCreationFailed"):
            return refused(event["message"])
    return "its pods are not made yet" if jobs else "its jobs are not made yet"


def refused(message: str) -> str:
    """What the API server refused, in its own words without what it was asked for."""
    text = " ".join(message.split())
    if quota := re.search(r"exceeded quota: (\S+), requested: (.+), used: (.+), limited: (.+)", text):
        return f"the namespace's quota {quota[1]} has no room: it wants {quota[2]}, used {quota[3]}, limit {quota[4]}"
    if denied := re.search(r"admission webhook \"([^\"]+)\" denied the request: (.+)", text):
        return f"admission was refused by {denied[1]}: {denied[2]}"
    return f"it could not be made: {text}"


def _why_pending(pod: Found) -> str:
    scheduled = _condition(pod, "PodScheduled", "False")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        return "its queue holds it back"
    if scheduled:
        return f"no node has room for it: {_sentence(scheduled)}"
    beside: Sequence[Found] = pod["status"].get("initContainerStatuses", [])
    for container in (*beside, *pod["status"].get("containerStatuses", [])):
        whose = f"{container['name']} beside it: " if container in beside else ""
        waiting = container["state"].get("waiting")
        if waiting and waiting.get("reason") in _IMAGE:
            return f"{whose}its image cannot be pulled: {_sentence(waiting)}"
        if waiting and waiting.get("message"):
            return f"{whose}{waiting['reason']}: {_sentence(waiting)}"
        if whose and "running" in container["state"] and container.get("started") is False:
            return f"waits for {container['name']} beside it, which is not ready yet"
    return "its node starts it"


def _why_failed(pod: Found) -> str:
    for container in pod["status"].get("containerStatuses", []):
        ended = container["state"].get("terminated")
        if ended:
            said = f"ended with exit code {ended['exitCode']}"
            return f"{said}: {_sentence(ended)}" if ended.get("message") else said
    return _sentence(pod["status"]) or "it ended, and nothing says why"


def _started(pod: Found) -> bool:
    return any("running" in container["state"] for container in pod["status"].get("containerStatuses", []))


def _condition(pod: Found, kind: str, status: str = "True") -> Found | None:
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == kind and condition["status"] == status:
            return condition
    return None


def _sentence(said: Found) -> str:
    return " ".join(str(said.get("message") or said.get("reason") or "").split())
