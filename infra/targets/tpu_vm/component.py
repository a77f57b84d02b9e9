"""TPU slices of one stack: guard, wheelhouse, bundle, run record, one request for all, and the wait for its hosts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pulumi

from infra.components.resources import Run, SlipwayResource, as_value, child_after
from infra.components.stored_software import StoredSoftwareArgs, store_software
from infra.providers.inputs import RunInputs
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs, SliceReadyInputs, TpuStackGuardInputs


class TpuStackGuard(SlipwayResource[TpuStackGuardInputs]):
    """Declare it first: its delete runs last and removes what the state never learned of."""

    identity: pulumi.Output[str]


class QueuedResource(SlipwayResource[QueuedResourceInputs]):
    """A request for slices; there as soon as it is accepted, in one of its zones."""

    made: pulumi.Output[str]


class SliceReady(SlipwayResource[SliceReadyInputs]):
    """The wait for a request's hosts."""

    state: pulumi.Output[str]
    ready: pulumi.Output[int]
    zone: pulumi.Output[str]


@dataclass(frozen=True)
class TpuSliceArgs:
    guard: TpuStackGuardInputs
    software: StoredSoftwareArgs
    run: RunInputs
    request: QueuedResourceInputs  # its `identity` follows from the guard
    hosts: int  # of all slices
    wait: bool
    wait_deadline_s: int


class TpuSlice(pulumi.ComponentResource):
    """Hosts find their bundle in the store before they exist, and nothing is asked for that another run's name stops.

    Does not wait for training to end.
    """

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:tpu:Slice", name, None, opts)
        guard = TpuStackGuard("guard", args.guard, child_after(self))
        identity = as_value(guard.identity)
        software = store_software(args.software.of_state(identity), self, guard)
        wanted = dataclasses.replace(args.request, identity=identity)
        run = Run("run", args.run, child_after(self, guard))
        request = QueuedResource("request", wanted, child_after(self, guard, *software, run))
        made = as_value(request.made)
        awaited = SliceReadyInputs({**vars(wanted)}, made, args.hosts, args.wait, args.wait_deadline_s)
        ready = SliceReady("ready", awaited, child_after(self, request))
        self.state, self.zone = ready.state, ready.zone
        self.register_outputs({"state": self.state, "zone": self.zone})
