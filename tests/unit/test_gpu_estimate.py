"""The estimate of HBM without a compiler, held against what the TPU compiler said of the same models."""

from __future__ import annotations

from typing import Any

import pytest

from infra import hardware
from infra.preview.fit import cache, gpu_estimate, model_sizes
from infra.preview.fit.train_step import of_accelerator, of_stack
from infra.stack_file.settings import any_from_file, stack_names
from infra.targets.tpu_vm.settings import TpuVmSettings

# Peaks in GiB by the TPU compiler, of llama2-7b at 2,048 tokens a sequence, remat full (`slipway fit --accelerator`).
MEASURED = (("v5e-8", 1, 15.00), ("v5e-16", 1, 8.12), ("v5e-16", 4, 11.3), ("v5e-16", 6, 13.3), ("v5e-16", 8, 14.9))


def test_parameters_are_those_of_the_models() -> None:
    published = {
        "llama2-7b": 6.74,
        "llama2-70b": 69.0,
        "llama3.1-8b": 8.03,
        "llama3.1-405b": 405.9,
        "mixtral-8x7b": 46.7,
    }
    for model, billions in published.items():
        counted = model_sizes.sizes(model, {})
        assert counted and counted.parameters / 1e9 == pytest.approx(billions, rel=0.005), model


def test_flops_are_maxtexts() -> None:
    """As calculate_tflops_training_per_device says for one sequence of 2,048 tokens."""
    for model, tflops in (("llama2-7b", 84.486), ("llama2-70b", 860.84)):
        asked = of_accelerator(hardware.find("v5e-256"), 1, {"model_name": model, "per_device_batch_size": 1})
        assert gpu_estimate.tflops_per_device(asked) == pytest.approx(tflops, rel=1e-3)


def test_the_estimate_is_within_the_error_that_it_prints() -> None:
    """Of every committed verdict and the borderline cases."""
    errors: dict[str, float] = {}
    for stack in stack_names():
        if not isinstance(any_from_file(stack), TpuVmSettings):
            continue
        asked = of_stack(stack, {})
        verdict, estimate = cache.find(asked.request.key), gpu_estimate.peak_gib(asked)
        assert verdict and verdict.peak_gib and estimate, stack
        errors[stack] = estimate / verdict.peak_gib - 1
    for name, batch, peak in MEASURED:
        training: dict[str, Any] = {"model_name": "llama2-7b", "per_device_batch_size": batch}
        estimate = gpu_estimate.peak_gib(of_accelerator(hardware.find(name), 1, training))
        assert estimate
        errors[f"{name} x {batch}"] = estimate / peak - 1
    assert max(abs(error) for error in errors.values()) <= gpu_estimate.ERROR, errors


@pytest.mark.parametrize(
    ("training", "fits", "said"),
    [
        ({"model_name": "llama2-7b", "per_device_batch_size": 1}, True, ""),
        ({"model_name": "llama3.1-405b", "per_device_batch_size": 1}, False, "out of memory: "),
        ({"model_name": "gemma2-9b", "per_device_batch_size": 1}, None, "no estimate for gemma2-9b"),
        ({"model_name": "llama2-7b", "per_device_batch_size": 4, "max_target_length": 4096,
          "remat_policy": "minimal_with_context"}, None, "too close to tell: "),
    ],
)  # fmt: skip
def test_a_gpu_verdict_is_marked_and_unknown_where_the_error_decides(
    training: dict[str, Any], fits: bool | None, said: str
) -> None:
    asked = of_accelerator(hardware.find("a3-high-2"), 1, training)
    verdict = gpu_estimate.verdict(asked)
    assert verdict.estimated
    assert verdict.fits is fits
    assert verdict.reason.startswith(said)


def test_a_model_that_is_not_counted_has_no_flops_either() -> None:
    training = {"model_name": "gemma2-9b", "per_device_batch_size": 1}
    assert gpu_estimate.tflops_per_device(of_accelerator(hardware.find("a3-high-2"), 1, training)) is None


def test_a_mesh_that_shards_no_weights_gathers_none() -> None:
    """What is sent then is in no estimate, rather than wrong in it."""
    training = {"model_name": "llama2-7b", "per_device_batch_size": 1}
    row = hardware.find("a3-mega-2")
    sharded = gpu_estimate.verdict(of_accelerator(row, 1, training))
    assert {traffic.network for traffic in sharded.traffic} == {"ici", "dcn"}
    replicated = training | {"ici_fsdp_parallelism": 1, "ici_tensor_parallelism": -1}
    assert gpu_estimate.verdict(of_accelerator(row, 1, replicated)).traffic == ()


def test_a_larger_mesh_holds_less() -> None:
    training = {"model_name": "llama2-7b", "per_device_batch_size": 1}
    small, large = (gpu_estimate.peak_gib(of_accelerator(hardware.find(f"a3-mega-{n}"), 1, training)) for n in (1, 8))
    assert small and large and small > large
