"""A train step on a slice, from a stack or from an accelerator's name, with MaxText fields changed.

Owns what `slipway fit` can be asked about, checked as a stack is. Refuses to own the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from infra.hardware import Accelerator
from infra.preview.fit.compile_request import CompileRequest, compile_request_of
from infra.runs import run_plan
from infra.stack_file.settings import SYNTHETIC, DataOptions, SettingsError, Workload, check_training, from_file
from training.run_spec import RunSpec

_VOCABULARY = 32_000  # MaxText's default, for a model without a name


@dataclass(frozen=True)
class TrainStep:
    """`workload` is a stack's, or of no stack at all; `given` is what it runs, where that is known already.

    alone: on one GPU of the row's. flags: of XLA, after those of hosts with GPUs.
    """

    workload: Workload
    given: RunSpec | None = None
    alone: bool = False
    flags: tuple[str, ...] = ()

    @cached_property
    def spec(self) -> RunSpec:
        return self.given or run_plan.run_spec(self.workload, "/", None)

    @cached_property
    def request(self) -> CompileRequest:
        request = compile_request_of(self.workload, self.spec)
        gpu = request.gpu
        if gpu is None:
            return request
        if self.alone:
            gpu = replace(gpu, hosts=1, devices_per_host=1)
        return replace(request, gpu=replace(gpu, flags=(*gpu.flags, *self.flags)))

    @property
    def row(self) -> Accelerator:
        return self.workload.row

    @property
    def remat_policy(self) -> str:
        return self.request.remat_policy

    def number(self, field: str) -> float:
        """A MaxText field's, the stack's or the default."""
        value = self.spec.maxtext[field]
        assert isinstance(value, int | float)
        return float(value)

    @property
    def title(self) -> str:
        request, fields = self.request, self.spec.maxtext
        tokens = f"{fields['per_device_batch_size']:g} x {fields['max_target_length']} tokens a device"
        return f"{request.model}, {tokens}, remat {request.remat_policy}, on {request.size}"

    def changed(self, training: Mapping[str, Any] | None = None, **keys: Any) -> TrainStep:
        """The same with other values, checked. Raises SettingsError."""
        fields = self.workload.training | dict(training or {})
        return _checked(self.workload.model_copy(update={**keys, "training": fields}))


def of_stack(stack: str, training: Mapping[str, Any]) -> TrainStep:
    """Raises SettingsError for a stack that has no slice to compile for."""
    settings = from_file(stack)
    if settings.row.platform == "cpu":
        raise SettingsError(f"stack '{stack}' trains on this machine; `slipway fit` is about accelerators")
    return TrainStep(settings).changed(training)


def of_accelerator(row: Accelerator, slices: int, training: Mapping[str, Any]) -> TrainStep:
    """Raises SettingsError for fields that cannot be."""
    if row.platform == "cpu":
        raise SettingsError(f"accelerator '{row.name}' is this machine's; `slipway fit` is about TPUs and GPUs")
    if not training.keys() & {"model_name", "global_parameter_scale", "base_emb_dim"}:
        raise SettingsError("which model? give --set model_name=llama2-7b, for example")
    workload = Workload(
        stack="fit", accelerator=row.name, slices=slices, steps=1000, data=SYNTHETIC,
        training=dict(training), data_options=DataOptions.model_validate({"vocab_size": _VOCABULARY}),
    )  # fmt: skip
    return _checked(workload)


def _checked(workload: Workload) -> TrainStep:
    check_training(workload)
    return TrainStep(workload)
