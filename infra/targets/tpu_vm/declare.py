"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training themselves.

Hands what infra/targets/tpu_vm/plan.py has decided to the component. Not run on real hardware.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pulumi

from infra.artifacts import uses
from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, StoreError
from infra.artifacts.uses import Use
from infra.components.stored_software import stored_software_args
from infra.names import label_value, stack_label
from infra.preview.fit import lookup
from infra.preview.fit.compile_request import CompileRequest
from infra.preview.fit.compiler import CompileLimits
from infra.preview.fit.verdict import FitVerdict
from infra.rules import enforce
from infra.stack_file.cloud_training import FitCheck
from infra.stack_file.settings import SettingsError
from infra.targets.foundation.settings import how_to_make
from infra.targets.tpu_vm.component import TpuSlice, TpuSliceArgs
from infra.targets.tpu_vm.plan import TpuVmPlan, plan
from infra.targets.tpu_vm.provider.tpu_inputs import SliceReadyInputs, TpuStackGuardInputs
from infra.targets.tpu_vm.settings import TpuVmSettings
from training.run_spec import RunSpec

_PATIENCE_S = 20.0  # before anything is made, a bucket that does not answer is better said than waited for


def declare(settings: TpuVmSettings) -> tuple[RunSpec, tuple[str, ...]]:
    """Plan the stack and declare its resources."""
    buying = not pulumi.runtime.is_dry_run()
    tpu_plan = plan(settings, buying, judge=judge(settings))
    if buying:
        claim_artifacts(settings, tpu_plan)
    enforce.install(settings.stack, settings.owner, settings.allow)
    TpuSlice(settings.stack, slice_args(settings, tpu_plan))
    return tpu_plan.spec, tpu_plan.notices


def judge(settings: TpuVmSettings) -> Callable[[CompileRequest], FitVerdict]:
    """What says whether the train step fits: the compiler, if that is not known yet and the stack wants it asked."""
    if settings.fit is FitCheck.UNCHECKED:
        return lookup.known
    limits = CompileLimits(timeout_s=settings.fit_timeout_s)
    return lambda request: lookup.settle(request, limits, lambda line: pulumi.log.info(f"fit: {line}", ephemeral=True))


def claim_artifacts(settings: TpuVmSettings, tpu_plan: TpuVmPlan) -> None:
    """Leave word in the foundation's bucket of what this stack will use, so that nobody's `slipway gc` removes it.

    Raises SettingsError with the command that makes the bucket.
    """
    try:
        uses.record(open_store(settings.artifacts, _PATIENCE_S), use_of(settings, tpu_plan))
    except NoBucketError:
        fix = how_to_make(settings.project, settings.place, settings.prefix)
        raise SettingsError(
            f"there is no foundation in {settings.place} yet: no bucket {settings.artifacts}; {fix}"
        ) from None
    except StoreError as error:
        raise SettingsError(str(error)) from None


def use_of(settings: TpuVmSettings, tpu_plan: TpuVmPlan) -> Use:
    """What `slipway gc` has to keep for this stack, whoever runs it."""
    software = tpu_plan.software
    return Use(label_value(settings.owner), stack_label(settings.stack), software.wheelhouse.id, software.bundle)


def slice_args(settings: TpuVmSettings, tpu_plan: TpuVmPlan) -> TpuSliceArgs:
    """The component's arguments of a plan."""
    request, user = tpu_plan.request, use_of(settings, tpu_plan).user
    return TpuSliceArgs(
        guard=TpuStackGuardInputs(settings.project, stack_label(settings.stack), list(settings.zones), settings.owner),
        software=stored_software_args(tpu_plan.software, settings.artifacts, user),
        request=request,
        ready=SliceReadyInputs(
            request=dataclasses.asdict(request),
            made="",
            hosts=tpu_plan.spec.hosts,
            wait=settings.wait,
            wait_deadline_s=settings.wait_deadline,
        ),
    )
