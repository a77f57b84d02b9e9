"""slipway:tpu:SliceReady: waits until a request's slices are there and every host says that it has begun.

A resource of its own, so that losing the wait (Ctrl-C, a timeout) loses no request: the next `up` goes on waiting.
Where a request ends without chips it is deleted and asked for in the next zone of the list, and after the last from
the start again, until `wait_deadline`. Refuses to own how a request is asked for (tpu_request.py). Not run on real
hardware.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from infra.durations import text as duration
from infra.google_cloud.api_errors import FullError
from infra.google_cloud.retries import jittered
from infra.names import MADE_LABEL
from infra.providers.resource import Context, OnChange, Outputs, RemoteService, Resource, ResourceError
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup, tpu_nodes, tpu_request
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs, SliceReadyInputs
from infra.targets.tpu_vm.provider.tpu_request import Known
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from infra.vm_hosts import guest_report
from infra.vm_hosts.guest_report import HostFailure, Readiness

STARTS = 3  # of a host that fail for the same reason, after which nobody waits for another
SECONDS_PER_CALL = 10.0  # of waiting: six calls a minute
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 1800.0  # after all zones have failed once


class SliceReadyResource(Resource[SliceReadyInputs]):
    inputs = SliceReadyInputs
    timeout_s: ClassVar[float] = 367 * 86_400.0  # the stack's wait_deadline is the shorter one

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return tpu_api.API.service

    def create(self, context: Context, new: SliceReadyInputs) -> tuple[str, Outputs]:
        """After a wait that was stopped the engine asks for an update, which goes on."""
        request = TpuRequestResource().parse(new.request)
        wait = _Wait(context, new, request)
        context.accept(request.identifier, wait.outputs)
        return request.identifier, wait.once() if not new.wait else wait.until_ready()

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """To wait where nobody has waited before is something to do."""
        changed = super().changes(old, new, state)
        if state and new["wait"] and state.get("ready", 0) + state.get("behind", 0) != new["hosts"]:
            changed["wait"] = OnChange.UPDATE
        return changed

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        inputs = TpuRequestResource().parse(outputs["request"])
        request = tpu_request.find(context, inputs, Known(str(outputs.get("zone", "")), str(outputs.get("made", ""))))
        return {"state": request.state, "zone": request.zone} if request else None

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Nothing: the request is another resource."""


@dataclass
class _Wait:
    """What one wait has seen so far."""

    context: Context
    inputs: SliceReadyInputs
    request: QueuedResourceInputs
    state: str = ""
    zone: str = ""
    said: dict[str, Readiness] = field(default_factory=dict[str, Readiness])  # by node
    failed: dict[tuple[str, HostFailure], set[float]] = field(default_factory=dict[tuple[str, HostFailure], set[float]])
    calls: int = 0  # since the last pause
    turns: int = 0  # zones that have failed

    def __post_init__(self) -> None:
        self.began = self.context.now()
        self.bundle = self.request.bundle
        self.per_node = self.inputs.hosts // self.request.nodes

    @property
    def ready(self) -> int:
        return sum(len(said.ready) for said in self.said.values())

    @property
    def behind(self) -> int:
        return sum(len(said.behind) for said in self.said.values())

    @property
    def outputs(self) -> Outputs:
        return {"state": self.state, "ready": self.ready, "behind": self.behind, "zone": self.zone}

    def once(self) -> Outputs:
        self._look()
        return self.outputs

    def until_ready(self) -> Outputs:
        while True:
            ended = self._look()
            self.context.accept(self.request.identifier, self.outputs)
            if ended:
                self._move(ended)
            elif self.state == "ACTIVE" and self.ready + self.behind == self.inputs.hosts:
                if self.behind:
                    self.context.say(f"{self.behind} hosts run another bundle; they take this one at their next boot")
                # Labels that were changed while the request waited: its copy could not be.
                nodes = tpu_nodes.there(self.context, self.request, self.zone)
                tpu_nodes.patch(self.context, self.request, self.zone, nodes)
                return self.outputs
            else:
                self._pause(SECONDS_PER_CALL * self.calls)

    def _look(self) -> tpu_request.TpuRequest | None:
        """See how far it is. Returns the request where it has ended."""
        request = tpu_request.find(self.context, self.request, Known(self.zone, self.inputs.made))
        self.calls = 2 if request and request.state == "ACTIVE" else 1  # whose it is, its nodes say
        if request is None:
            raise ResourceError(
                f"{self.request.name} is in none of {', '.join(self.request.zones)}: somebody has deleted it, or "
                f"has it now; run `pulumi up`, which asks for it again or says who has it"
            )
        if request.made != self.inputs.made:
            raise ResourceError(
                f"{self.request.name} in {request.zone} is another request than the one that was waited for: somebody "
                f"has asked for it anew; run `pulumi up` to go on with theirs, if it is on this stack's terms"
            )
        if request.zone != self.zone:
            self.said.clear()
        self.state, self.zone = request.state, request.zone
        if request.state in tpu_request.ENDED:
            return request
        if request.state == "ACTIVE":
            self._count_hosts()
        return None

    def _count_hosts(self) -> None:
        """Ask node after node until one is not complete: the others are asked once that one is."""
        waiting = [name for name in self.request.node_ids if not self._is_complete(name)]
        random.shuffle(waiting)  # a host that has failed is seen, whichever it is
        for name in waiting:
            path = f"{self.request.parent(self.zone)}/nodes/{name}"
            values = tpu_api.guest_attributes(self.context, path, guest_report.ATTRIBUTE)
            self.said[name] = guest_report.readiness(values, self.bundle)
            for failure in self.said[name].failures:
                self._judge(name, failure)
            self.calls += 1
            if not self._is_complete(name):
                return

    def _is_complete(self, node: str) -> bool:
        said = self.said.get(node)
        return said is not None and len(said.ready) + len(said.behind) == self.per_node

    def _judge(self, node: str, failure: HostFailure) -> None:
        """A host that is started again is progress, until it has failed for the same reason often enough."""
        starts = self.failed.setdefault((node, replace(failure, start=0.0)), set())
        if failure.start in starts:
            return
        starts.add(failure.start)
        host = f"host {failure.host} of {node}"
        if failure.final:
            raise ResourceError(f"{host} has failed: {failure.reason}; mend it and run `pulumi up` again")
        if len(starts) == STARTS:
            raise ResourceError(
                f"{host} has failed {STARTS} times: {failure.reason}; it goes on trying. Mend it, then `pulumi up` "
                f"waits on"
            )
        if len(starts) == 1:
            self.context.say(f"{host} has failed, and starts again: {failure.reason}")

    @property
    def _missing(self) -> str:
        """Which hosts nobody has heard of, where others are there; empty before there are nodes."""
        if self.state != "ACTIVE":
            return ""
        silent = [f"{node} {hosts}" for node in self.request.node_ids if (hosts := self._silent(node))]
        return f"; no word of {', '.join(silent)}" if silent else ""

    def _silent(self, node: str) -> str:
        said = self.said.get(node)
        if said is None or len(said.silent) == self.per_node:
            return "(all hosts)"
        return f"({', '.join(f'host {host}' for host in said.silent)})" if said.silent else ""

    def _move(self, ended: tpu_request.TpuRequest) -> None:
        """Delete what is left, and ask in the next zone that takes it."""
        name, zone, made = self.request.name, ended.zone, ended.made
        why = f"{name} is {ended.state} in {zone} ({ended.reason})"
        self.context.say(why)
        tpu_cleanup.remove(self.context, self.request.path(zone), ended.labels.get(MADE_LABEL, ""))
        self.said.clear()
        if not ended.may_pass:
            raise ResourceError(f"{why}, and was deleted; mend what it says, then run `pulumi up` again")
        zones = self.request.in_order(zone)
        while True:
            self.turns += 1
            if self.turns % len(zones) == 0:
                rounds = self.turns // len(zones)
                self._pause(min(_FIRST_PAUSE_S * 2 ** (rounds - 1), _LONGEST_PAUSE_S), f"{why}: next try after a pause")
            zone = self.request.in_order(zone)[1 % len(zones)]
            self.context.say(f"asking for {name} in {zone}")
            try:
                request = tpu_request.ask(self.context, self.request, zone, made)
            except FullError as error:
                why = str(error)
                self.context.say(why)
            else:
                self.zone, self.state = request.zone, request.state
                return

    def _pause(self, seconds: float, line: str = "") -> None:
        waited, deadline = self.context.now() - self.began, self.inputs.wait_deadline_s
        at = f"{self.zone}: {self.state}, {self.ready} of {self.inputs.hosts} hosts ready"
        if waited >= deadline:
            raise ResourceError(
                f"{self.request.name} in {at} after {duration(deadline)} (wait_deadline){self._missing}; `pulumi up` "
                f"goes on waiting, `pulumi destroy` gives it up"
            )
        self.context.report(f"{line or at}, waited {_rounded(waited)} of {duration(deadline)}")
        self.context.wait(min(jittered(seconds), max(1.0, deadline - waited)))


def _rounded(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds < 60 else f"{int(seconds // 60)}m"
