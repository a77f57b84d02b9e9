"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training themselves.

Hands what infra/targets/tpu_vm_plan.py has decided to the component. Not run on real hardware.
"""

from __future__ import annotations

import dataclasses

import pulumi

from infra import guarded
from infra.components.resources import BundleArgs, WheelhouseArgs
from infra.components.tpu_slice import TpuSlice, TpuSliceArgs
from infra.names import stack_label
from infra.providers.slice_ready import SliceReadyInputs
from infra.providers.tpu_stack_guard import TpuStackGuardInputs
from infra.targets.tpu_vm_plan import TpuVmPlan, plan
from infra.targets.tpu_vm_settings import TpuVmSettings
from training.run_spec import RunSpec


def declare(settings: TpuVmSettings) -> tuple[RunSpec, tuple[str, ...]]:
    """Plan the stack and declare its resources."""
    made = plan(settings, buying=not pulumi.runtime.is_dry_run())
    guarded.install(settings.stack, settings.owner, settings.allow)
    TpuSlice(settings.stack, slice_args(settings, made))
    return made.spec, made.notices


def slice_args(settings: TpuVmSettings, made: TpuVmPlan) -> TpuSliceArgs:
    """The component's arguments of a plan."""
    software, store, request = made.software, made.artifacts, made.request
    contents, wheels = software.contents, software.wheelhouse
    return TpuSliceArgs(
        guard=TpuStackGuardInputs(settings.project, stack_label(settings.stack), list(settings.zones)),
        wheelhouse=WheelhouseArgs(store, wheels.id, software.build_arguments),
        bundle=BundleArgs(
            store=store,
            bundle=software.bundle,
            run_spec=made.spec.to_yaml(),
            wheelhouse=wheels.id,
            lock=str(contents.lock),
            model_file=str(contents.model_file or ""),
        ),
        request=request,
        ready=SliceReadyInputs(
            request=dataclasses.asdict(request),
            made="",
            hosts=made.spec.hosts,
            wait=settings.wait,
            wait_deadline_s=settings.wait_deadline,
        ),
    )
