"""TPU slices of one stack: guard, wheelhouse, bundle, one request for all slices, and the wait for its hosts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import pulumi

from infra.components.resources import SlipwayResource, child_after
from infra.components.stored_software import StoredSoftwareArgs, store_software
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
    request: QueuedResourceInputs  # its `identity` follows from the guard
    ready: SliceReadyInputs  # its `made` and `request` follow from the request


class TpuSlice(pulumi.ComponentResource):
    """Hosts find their bundle in the store before they exist. Does not wait for training to end."""

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:tpu:Slice", name, None, opts)
        guard = TpuStackGuard("guard", args.guard, child_after(self))
        software = store_software(args.software, self, guard)
        # Outputs where the provider will see their values.
        wanted = dataclasses.replace(args.request, identity=cast(Any, guard.identity))
        request = QueuedResource("request", wanted, child_after(self, guard, *software))
        awaited = dataclasses.replace(
            args.ready, made=cast(Any, request.made), request=args.ready.request | {"identity": guard.identity}
        )
        ready = SliceReady("ready", awaited, child_after(self, request))
        self.state, self.zone = ready.state, ready.zone
        self.register_outputs({"state": self.state, "zone": self.zone})
