"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training themselves.

Hands what infra/targets/tpu_vm/plan.py has decided to the component. Not run on real hardware.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pulumi

from infra.artifacts import uses
from infra.artifacts.store import NoBucketError, StoreError, open_store
from infra.artifacts.uses import Use
from infra.components.resources import BundleArgs, WheelhouseArgs
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
from infra.targets.tpu_vm.provider.slice_ready import SliceReadyInputs
from infra.targets.tpu_vm.provider.tpu_stack_guard import TpuStackGuardInputs
from infra.targets.tpu_vm.settings import TpuVmSettings
from training.run_spec import RunSpec

_PATIENCE_S = 20.0  # before anything is made, a bucket that does not answer is better said than waited for


def declare(settings: TpuVmSettings) -> tuple[RunSpec, tuple[str, ...]]:
    """Plan the stack and declare its resources."""
    buying = not pulumi.runtime.is_dry_run()
    made = plan(settings, buying, judge=judge(settings))
    if buying:
        claim_artifacts(settings, made)
    enforce.install(settings.stack, settings.owner, settings.allow)
    TpuSlice(settings.stack, slice_args(settings, made))
    return made.spec, made.notices


def judge(settings: TpuVmSettings) -> Callable[[CompileRequest], FitVerdict]:
    """Has the train step compiled if that is not known yet, unless the stack wants no compile."""
    if settings.fit is FitCheck.UNCHECKED:
        return lookup.known
    limits = CompileLimits(timeout_s=settings.fit_timeout_s)
    return lambda request: lookup.settle(request, limits, lambda said: pulumi.log.info(f"fit: {said}", ephemeral=True))


def claim_artifacts(settings: TpuVmSettings, made: TpuVmPlan) -> None:
    """Leave word in the foundation's bucket of what this stack will use, so that nobody's `slipway gc` removes it.

    Raises SettingsError with the command that makes the bucket.
    """
    try:
        uses.record(open_store(made.artifacts, _PATIENCE_S), use_of(settings, made))
    except NoBucketError:
        fix = how_to_make(settings.project, settings.place, settings.prefix)
        raise SettingsError(
            f"there is no foundation in {settings.place} yet: no bucket {made.artifacts}; {fix}"
        ) from None
    except StoreError as error:
        raise SettingsError(str(error)) from None


def use_of(settings: TpuVmSettings, made: TpuVmPlan) -> Use:
    """What `slipway gc` has to keep for this stack, whoever runs it."""
    software = made.software
    return Use(label_value(settings.owner), stack_label(settings.stack), software.wheelhouse.id, software.bundle)


def slice_args(settings: TpuVmSettings, made: TpuVmPlan) -> TpuSliceArgs:
    """The component's arguments of a plan."""
    software, store, request = made.software, made.artifacts, made.request
    contents, wheels = software.contents, software.wheelhouse
    return TpuSliceArgs(
        guard=TpuStackGuardInputs(
            settings.project, stack_label(settings.stack), list(settings.zones), label_value(settings.owner)
        ),
        wheelhouse=WheelhouseArgs(store, wheels.id, software.build_arguments),
        bundle=BundleArgs(
            store=store,
            bundle=software.bundle,
            run_spec=made.spec.to_yaml(),
            wheelhouse=wheels.id,
            lock=str(contents.lock),
            model_file=str(contents.model_file or ""),
            user=use_of(settings, made).user,
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
