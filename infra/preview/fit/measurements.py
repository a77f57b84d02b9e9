"""Measurements that were published or made by us, with the settings they were made with: they judge the roofline.

Owns the list. What a source does not say of its settings is MaxText's default, and the row says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra import hardware
from infra.preview.fit.train_step import TrainStep, of_accelerator

_V5E = {"max_target_length": 2048, "remat_policy": "full", "attention": "flash"}
_V5P = {"max_target_length": 2048, "remat_policy": "minimal", "attention": "flash", "ici_tensor_parallelism": 4}
_7B = {"model_name": "llama2-7b", "max_target_length": 4096}
_V5E_SOURCE = "MaxText configs/tpu/v5e"
_V5P_SOURCE = "MaxText configs/tpu/v5p"
_H200_SOURCE = "measured on one H200 of an eight, synthetic data"


@dataclass(frozen=True)
class Measured:
    """`tflops` per chip and second of the model's FLOPs, as MaxText logs it."""

    accelerator: str
    training: Mapping[str, Any]
    tflops: float
    source: str

    @property
    def title(self) -> str:
        model = self.training.get("model_name") or f"{self.training['global_parameter_scale']}B"
        return f"{model}, {self.training.get('remat_policy', 'full')}"

    @property
    def step(self) -> TrainStep:
        return of_accelerator(hardware.find(self.accelerator), 1, self.training)


MEASURED = (
    Measured("v5e-256", _V5E | {"global_parameter_scale": 16, "per_device_batch_size": 6}, 120, _V5E_SOURCE),
    Measured("v5e-256", _V5E | {"global_parameter_scale": 32, "per_device_batch_size": 4}, 132, _V5E_SOURCE),
    Measured("v5e-256", _V5E | {"global_parameter_scale": 64, "per_device_batch_size": 2}, 118, _V5E_SOURCE),
    Measured("v5p-128", _V5P | {"global_parameter_scale": 32, "per_device_batch_size": 6}, 328, _V5P_SOURCE),
    Measured("v5p-128", _V5P | {"global_parameter_scale": 64, "per_device_batch_size": 3}, 323, _V5P_SOURCE),
    Measured(
        "a3-high-1",
        _7B | {"per_device_batch_size": 4, "remat_policy": "minimal_with_context"},
        492,
        "MaxText configs/gpu/a3/llama_2_7b",
    ),
    Measured("a3-ultra-1", _7B | {"per_device_batch_size": 4, "remat_policy": "full"}, 418, _H200_SOURCE),
    Measured("a3-ultra-1", _7B | {"per_device_batch_size": 4, "remat_policy": "save_qkv_proj"}, 496, _H200_SOURCE),
    Measured(
        "a3-ultra-1", _7B | {"per_device_batch_size": 2, "remat_policy": "minimal_with_context"}, 532, _H200_SOURCE
    ),
)
