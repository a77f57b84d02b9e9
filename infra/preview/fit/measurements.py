"""Measurements that were published or made by us, with the settings they were made with: they judge the roofline.

Owns the list; our own are data beside it, which `bench/gpu_step.py` writes where there is a GPU. They judge the
compiler's count of memory too. What a source does not say of its settings is MaxText's default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra import hardware
from infra.preview.fit.train_step import TrainStep, of_accelerator

_V5E = {"max_target_length": 2048, "remat_policy": "full", "attention": "flash"}
_V5P = {"max_target_length": 2048, "remat_policy": "minimal", "attention": "flash", "ici_tensor_parallelism": 4}
_7B = {"model_name": "llama2-7b", "max_target_length": 4096}
_V5E_SOURCE = "MaxText configs/tpu/v5e"
_V5P_SOURCE = "MaxText configs/tpu/v5p"


@dataclass(frozen=True)
class Measured:
    """`tflops` per chip and second of the model's FLOPs, as MaxText logs it. `peak_gib`: of a device's memory.

    alone: on one GPU of the accelerator's, with all weights. flags: of XLA, other than those of hosts today.
    """

    accelerator: str
    training: Mapping[str, Any]
    tflops: float
    source: str
    peak_gib: float | None = None
    alone: bool = False
    flags: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        model = self.training.get("model_name") or f"{self.training['global_parameter_scale']}B"
        layers = self.training.get("base_num_decoder_layers")
        parts = (
            f"{model}{f' ({layers} layers)' if layers else ''}",
            f"batch {self.training['per_device_batch_size']}",
            self.training.get("remat_policy", "full"),
            self.training.get("quantization", ""),
            "" if self.training.get("scan_layers", True) else "unrolled",
            "dot_product" if self.training.get("attention") == "dot_product" else "",
            *(flag.removeprefix("--xla_gpu_") for flag in self.flags),
        )
        return ", ".join(filter(None, parts))

    @property
    def step(self) -> TrainStep:
        step = of_accelerator(hardware.find(self.accelerator), 1, self.training)
        return replace(step, alone=self.alone, flags=self.flags)


def _on_one_gpu() -> tuple[Measured, ...]:
    """Without those of the sweep, which differ in flags alone."""
    document = json.loads(Path(__file__).with_name("measured_h200.json").read_text())
    return tuple(
        Measured(
            document["accelerator"], each["training"], each["tflops"], document["source"], each["peak_gib"],
            alone=True, flags=tuple(each["flags"]),
        )
        for each in document["measured"]
    )  # fmt: skip


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
    *_on_one_gpu(),
)
