"""TPU slices of one stack: guard, wheelhouse, bundle, data, run record, one request, and the wait for its hosts."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.prepared_run import PreparedRunArgs, prepare_run
from infra.components.resources import SlipwayResource, child_after
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
    prepared: PreparedRunArgs
    request: QueuedResourceInputs  # its `identity` follows from the guard
    ready: SliceReadyInputs  # its request's `identity` and `made` follow from guard and request


class TpuSlice(pulumi.ComponentResource):
    """Hosts find bundle and data in their buckets before they exist, and nothing is asked for that another run's name
    or too little data stops.

    Does not wait for training to end.
    """

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:tpu:Slice", name, None, opts)
        guard = TpuStackGuard("guard", args.guard, child_after(self))
        run = prepare_run(args.prepared, self, guard, guard.identity)
        identity = {"identity": guard.identity}
        request = QueuedResource("request", args.request, child_after(self, guard, *run), identity)
        awaited = {"request": vars(args.request) | identity, "made": request.made}
        ready = SliceReady("ready", args.ready, child_after(self, request), awaited)
        self.state, self.zone = ready.state, ready.zone
        self.register_outputs({"state": self.state, "zone": self.zone})
