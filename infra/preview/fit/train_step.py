"""A train step on a slice, from a stack or from an accelerator's name, with MaxText fields changed. Pure.

Owns what can be asked about, and that it is checked as a stack is. Refuses to own the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from infra.hardware import Accelerator
from infra.preview.fit import lookup
from infra.preview.fit.compile_request import FitRequest
from infra.runs import run_plan
from infra.stack_file.settings import SYNTHETIC, DataOptions, Settings, SettingsError, check_training, from_file
from infra.targets.registry import Target
from training.run_spec import RunSpec

_VOCABULARY = 32_000  # MaxText's default, for a model without a name


@dataclass(frozen=True)
class Question:
    """`settings` need not be of a stack that exists."""

    settings: Settings

    @cached_property
    def spec(self) -> RunSpec:
        return run_plan.run_spec(self.settings, "/", None)

    @cached_property
    def request(self) -> FitRequest:
        return lookup.request_of(self.settings, self.spec)

    @property
    def row(self) -> Accelerator:
        return self.settings.row

    @property
    def remat_policy(self) -> str:
        return self.request.remat_policy

    @property
    def title(self) -> str:
        asked, fields = self.request, self.spec.maxtext
        tokens = f"{fields['per_device_batch_size']:g} x {fields['max_target_length']} tokens a device"
        return f"{asked.model}, {tokens}, remat {asked.remat_policy}, on {asked.size}"

    def changed(self, training: Mapping[str, Any] | None = None, **settings: Any) -> Question:
        """The same with other values, checked. Raises SettingsError."""
        return _checked(
            self.settings.model_copy(update={**settings, "training": self.settings.training | dict(training or {})})
        )


def of_stack(stack: str, training: Mapping[str, Any]) -> Question:
    """Raises SettingsError for a stack that has no slice to compile for."""
    settings = from_file(stack)
    if settings.row.platform == "cpu":
        raise SettingsError(f"stack '{stack}' trains on this machine; `slipway fit` is about accelerators")
    return Question(settings).changed(training)


def of_accelerator(row: Accelerator, slices: int, training: Mapping[str, Any]) -> Question:
    """Raises SettingsError for fields that cannot be."""
    if row.platform == "cpu":
        raise SettingsError(f"accelerator '{row.name}' is this machine's; `slipway fit` is about TPUs and GPUs")
    if not training.keys() & {"model_name", "global_parameter_scale", "base_emb_dim"}:
        raise SettingsError("which model? give --set model_name=llama2-7b, for example")
    settings = Settings(
        stack="fit", target=Target.LOCAL, accelerator=row.name, slices=slices, steps=1000, data=SYNTHETIC,
        training=dict(training), data_options=DataOptions.model_validate({"vocab_size": _VOCABULARY}),
    )  # fmt: skip
    return _checked(settings)


def _checked(settings: Settings) -> Question:
    check_training(settings)
    return Question(settings)
