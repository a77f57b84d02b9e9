"""TPU slices of one stack: guard, wheelhouse, bundle, one request for all slices, and the wait for its hosts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import pulumi

from infra.components.resources import Bundle, BundleArgs, Ours, Wheelhouse, WheelhouseArgs
from infra.targets.tpu_vm.provider.slice_ready import SliceReadyInputs
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs
from infra.targets.tpu_vm.provider.tpu_stack_guard import TpuStackGuardInputs


class TpuStackGuard(Ours):
    """Declare it first: its delete runs last and removes what the state never learned of."""

    def __init__(self, name: str, args: TpuStackGuardInputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:tpu:StackGuard", name, args, (), opts)


class QueuedResource(Ours):
    """A request for slices; there as soon as it is accepted, in one of its zones."""

    made: pulumi.Output[str]

    def __init__(self, name: str, args: QueuedResourceInputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:tpu:QueuedResource", name, args, ("made",), opts)


class SliceReady(Ours):
    """The wait for a request's hosts."""

    state: pulumi.Output[str]
    ready: pulumi.Output[int]
    zone: pulumi.Output[str]

    def __init__(self, name: str, args: SliceReadyInputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:tpu:SliceReady", name, args, ("state", "ready", "zone"), opts)


@dataclass(frozen=True)
class TpuSliceArgs:
    guard: TpuStackGuardInputs
    wheelhouse: WheelhouseArgs
    bundle: BundleArgs
    request: QueuedResourceInputs
    ready: SliceReadyInputs  # its `made` follows from the request


class TpuSlice(pulumi.ComponentResource):
    """Hosts find their bundle in the store before they exist. Does not wait for training to end."""

    def __init__(self, name: str, args: TpuSliceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:tpu:Slice", name, None, opts)

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=list(resources))

        guard = TpuStackGuard("guard", args.guard, after())
        wheelhouse = Wheelhouse("wheelhouse", args.wheelhouse, after(guard))
        bundle = Bundle("bundle", args.bundle, after(guard))
        request = QueuedResource("request", args.request, after(guard, wheelhouse, bundle))
        made = cast(Any, request.made)  # an output where the provider will see its value
        ready = SliceReady("ready", dataclasses.replace(args.ready, made=made), after(request))
        self.state, self.zone = ready.state, ready.zone
        self.register_outputs({"state": self.state, "zone": self.zone})
