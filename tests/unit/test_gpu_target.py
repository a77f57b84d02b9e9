"""What XLA's compiler is told of GPUs, and how near its answers are to what an H200 took."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from infra import hardware
from infra.preview.fit import cache, gpu_target
from infra.preview.fit.gpu_target import ERROR
from infra.preview.fit.measurements import MEASURED, Measured
from infra.preview.fit.train_step import TrainStep, of_accelerator
from infra.preview.fit.verdict import FitVerdict
from training.gpu_environment import MEMORY_SHARE

ON_A_CARD = [measured for measured in MEASURED if measured.peak_gib]


def step(name: str, **training: Any) -> TrainStep:
    return of_accelerator(hardware.find(name), 1, {"model_name": "llama2-7b", "per_device_batch_size": 1} | training)


@pytest.mark.parametrize("measured", ON_A_CARD, ids=lambda measured: measured.title)
def test_what_the_compiler_counts_is_what_a_card_took(measured: Measured) -> None:
    """From committed answers (`slipway fit --judge --ship`). What is counted too low is within the added error."""
    verdict = cache.find(measured.step.request.key)
    assert verdict and verdict.peak_gib and measured.peak_gib, "run slipway fit --judge --ship"
    assert -ERROR < verdict.peak_gib / measured.peak_gib - 1 < 0.1


def test_policies_are_measured_that_stacks_use() -> None:
    assert {str(measured.training["remat_policy"]) for measured in ON_A_CARD} >= {
        "full", "minimal", "minimal_with_context", "save_dot_except_mlp", "save_out_proj", "save_qkv_proj",
    }  # fmt: skip


def test_a_card_is_described_with_its_own_memory() -> None:
    small, large = step("a3-mega-2").request.gpu, step("a3-ultra-2").request.gpu
    assert small and large
    assert "device_memory_size: 84942979072 " in small.card
    assert 'name: "NVIDIA H200"' in large.card
    assert small.hbm_gib == pytest.approx(84_942_979_072 * MEMORY_SHARE / 2**30, abs=0.01)
    assert (small.hosts, small.devices_per_host) == (2, 8)


def test_flags_that_change_a_program_are_part_of_the_question() -> None:
    """TCPXO's hosts join collectives into larger ones, which takes memory; another network's do not."""
    tcpxo, unknown = step("a3-mega-2").request, step("h100-2").request
    assert tcpxo.gpu and unknown.gpu
    assert "--xla_gpu_all_gather_combine_threshold_bytes=134217728" in tcpxo.gpu.flags
    assert not any("combine" in flag for flag in unknown.gpu.flags)
    same = dataclasses.replace(tcpxo, topology=unknown.topology)
    assert len({tcpxo.key, unknown.key, same.key}) == 3


def test_a_tpu_is_asked_of_as_before() -> None:
    """A field that only GPUs have is in no TPU's key, by which committed verdicts are found."""
    asked = of_accelerator(hardware.find("v6e-8"), 1, {"model_name": "llama2-7b"}).request
    assert asked.gpu is None
    assert cache.find(asked.key) is None
    assert dataclasses.replace(asked, gpu=step("h100-1").request.gpu).key != asked.key


@pytest.mark.parametrize(("peak", "fits"), [(60.0, True), (67.24 / (1 + ERROR), True), (65.5, False), (90.0, False)])
def test_a_peak_fits_where_its_error_does_too(peak: float, fits: bool) -> None:
    compiled = FitVerdict("k", "a3-mega-2", 1, "llama2-7b", None, hbm_gib=67.24, peak_gib=peak, tflops_per_device=1.0)
    verdict = gpu_target.judged(compiled)
    assert verdict.fits is fits
    assert verdict.keys == (() if fits else gpu_target.MEMORY_KEYS)
    if not fits:
        assert f"wants {peak:.2f} GiB of HBM per device by XLA's compiler, which may be 3% too few" in verdict.reason
