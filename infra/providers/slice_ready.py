"""slipway:tpu:SliceReady: waits until a request's slices are there and every host says that it has begun.

A resource of its own, so that losing the wait (Ctrl-C, a timeout) loses no request: the next `up` goes on waiting.
Refuses to own the request. Not run on real hardware.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.durations import text as duration
from infra.providers import tpu_api
from infra.providers.resource import Context, Outputs, Resource, ResourceError, ignored, replaces

POLL_S = 20.0
GUEST_ATTRIBUTE = "slipway/status"  # infra/startup_script.py writes it
ENDED = ("FAILED", "SUSPENDING", "SUSPENDED", "DELETING")
_BEFORE_READY = ("booting", "bootstrapping")


@dataclass(frozen=True)
class SliceReadyInputs:
    request: str = replaces("another request is another wait")  # projects/P/locations/Z/queuedResources/Q
    made: str = replaces("the request was made anew")  # its create time
    nodes: list[str] = replaces("another request is another wait")  # ids
    hosts: int = replaces("another request is another wait")  # of all nodes
    wait: bool = ignored()
    wait_deadline_s: int = ignored()


class SliceReady(Resource[SliceReadyInputs]):
    token: ClassVar[str] = "slipway:tpu:SliceReady"
    inputs = SliceReadyInputs
    timeout_s: ClassVar[float] = 8 * 86_400.0  # the stack's wait_deadline is the shorter one

    def create(self, context: Context, new: SliceReadyInputs) -> tuple[str, Outputs]:
        context.accept(new.request, {"state": "", "ready": 0})
        if not new.wait:
            return new.request, _seen(new)
        began = time.monotonic()
        while True:
            seen = _seen(new)
            state, ready = seen["state"], seen["ready"]
            waited = time.monotonic() - began
            if state == "ACTIVE" and ready == new.hosts:
                return new.request, seen
            if state in ENDED:
                raise ResourceError(f"{new.request} is {state}; see why, `pulumi destroy` it, then `pulumi up` again")
            if waited > new.wait_deadline_s:
                raise ResourceError(
                    f"{new.request} is {state} after {duration(new.wait_deadline_s)} (wait_deadline), {ready} of "
                    f"{new.hosts} hosts ready; `pulumi up` goes on waiting, `pulumi destroy` gives it up"
                )
            context.report(f"{state}, {ready} of {new.hosts} hosts ready")
            context.wait(POLL_S)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        found = tpu_api.get(identifier)
        return {"state": str(found.state.state.name)} if found else None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: SliceReadyInputs) -> Outputs:
        return {"state": outputs.get("state", ""), "ready": outputs.get("ready", 0)}

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        del context, identifier, outputs  # the request is another resource


def _seen(new: SliceReadyInputs) -> Outputs:
    found = tpu_api.get(new.request)
    if found is None:
        raise ResourceError(f"{new.request} is gone; run `pulumi refresh`, then `pulumi up`")
    state = str(found.state.state.name)
    parent = new.request.partition("/queuedResources/")[0]
    values: list[str] = []
    if state == "ACTIVE":
        for node in new.nodes:
            values += tpu_api.guest_attributes(f"{parent}/nodes/{node}", GUEST_ATTRIBUTE)
    return {"state": state, "ready": ready_hosts(values)}


def ready_hosts(values: Iterable[str]) -> int:
    """How many hosts have said that training has begun (or is over). Raises ResourceError for one that has failed."""
    ready = 0
    for value in values:
        status: Any = json.loads(value)["status"]
        if status["phase"] == "failed":
            raise ResourceError(f"a host has failed: {status['reason']}; mend it and run `pulumi up` again")
        ready += status["phase"] not in _BEFORE_READY
    return ready
