"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training themselves.

Hands what was decided to the component. Not run on real hardware.
"""

from __future__ import annotations

from infra.components.claimed_artifacts import use_of
from infra.components.run_inputs import prepared_data_inputs, run_inputs
from infra.components.stored_software import stored_software_args
from infra.names import stack_label
from infra.preview.stack_plan import TrainingPlan
from infra.stack_file.settings import OnDestroy
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
        software=stored_software_args(software, settings.places.artifacts, use_of(settings, software).user),
        data=prepared_data_inputs(settings, plan.spec, software, OnDestroy.KEEP),
        run=run_inputs(plan.spec, software),
        request=request,
        ready=SliceReadyInputs(vars(request), "", plan.spec.hosts, settings.wait, settings.wait_deadline),
    )
