"""Attention on GPUs: what a stack gets that says nothing, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from infra import hardware
from infra.preview.fit.train_step import of_accelerator
from infra.runs import run_plan
from infra.stack_file import gpu_attention
from infra.stack_file.settings import SettingsError, Workload, check_training


def workload(accelerator: str, data: str, **training: Any) -> Workload:
    model = {"model_name": "llama2-7b", "per_device_batch_size": 1}
    values: dict[str, Any] = {"stack": "s", "accelerator": accelerator, "steps": 10, "data": data}
    return Workload.model_validate(values | {"training": model | training})


@pytest.mark.parametrize(
    ("data", "training", "kernel"),
    [
        ("synthetic", {}, "cudnn_flash_jax"),
        ("gs://bucket/text", {}, "dot_product"),
        ("gs://bucket/text", {"packing": False}, "cudnn_flash_jax"),
        ("gs://bucket/text", {"attention": "cudnn_flash_jax", "packing": False}, "cudnn_flash_jax"),
        ("synthetic", {"attention": "dot_product"}, "dot_product"),
    ],
)
def test_documents_that_are_packed_are_kept_apart(data: str, training: dict[str, Any], kernel: str) -> None:
    asked = workload("h100-1", data, **training)
    check_training(asked)
    assert run_plan.run_spec(asked, "/runs", None).maxtext["attention"] == kernel


def test_a_tpu_keeps_maxtexts_own_choice() -> None:
    asked = workload("v6e-8", "synthetic", attention="flash")
    check_training(asked)
    assert "attention" not in run_plan.run_spec(workload("v6e-8", "synthetic"), "/runs", None).maxtext


@pytest.mark.parametrize(
    ("data", "training", "said"),
    [
        (
            "synthetic",
            {"attention": "autoselected"},
            "needs `pallas.dot`); write cudnn_flash_jax, or dot_product where",
        ),
        (
            "synthetic",
            {"attention": "flash"},
            "training: attention flash is on GPUs a kernel that the locked JAX cannot",
        ),
        ("synthetic", {"attention": "cudnn_flash_te"}, "needs TransformerEngine, which hosts do not install"),
        (
            "text/*",
            {"attention": "cudnn_flash_jax"},
            "see each other; write `packing: false` beside it, or attention: d",
        ),
    ],
)
def test_a_kernel_that_cannot_be_is_refused_with_those_that_can(data: str, training: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_training(workload("h100-1", data, **training))
    assert said in str(refused.value)


def test_slipway_fit_refuses_it_too() -> None:
    with pytest.raises(SettingsError, match="attention flash is on GPUs"):
        of_accelerator(hardware.find("a3-mega-2"), 1, {"model_name": "llama2-7b", "attention": "flash"})
    assert gpu_attention.problem(False, {}) is None
