"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training themselves.

Hands what was decided to the component. Not run on real hardware.
"""

from __future__ import annotations

from infra.components.prepared_run import prepared_run_args
from infra.names import stack_label
from infra.preview.stack_plan import TrainingPlan
from infra.targets.tpu_vm.component import TpuSlice, TpuSliceArgs
from infra.targets.tpu_vm.plan import requested
from infra.targets.tpu_vm.provider.tpu_inputs import SliceReadyInputs, TpuStackGuardInputs
from infra.targets.tpu_vm.settings import TpuVmSettings


def declare(plan: TrainingPlan[TpuVmSettings]) -> None:
    """Declare the stack's resources."""
    TpuSlice(plan.settings.stack, slice_args(plan))


def slice_args(plan: TrainingPlan[TpuVmSettings]) -> TpuSliceArgs:
    """The component's arguments of a plan."""
    settings, software = plan.settings, plan.software
    request = requested(settings, software)
    return TpuSliceArgs(
        guard=TpuStackGuardInputs(
            settings.project, stack_label(settings.stack), list(settings.zones), settings.owner, request.wanted_in
        ),
        prepared=prepared_run_args(settings, plan.spec, software),
        request=request,
        ready=SliceReadyInputs(vars(request), "", plan.spec.hosts, settings.wait, settings.wait_deadline),
    )
