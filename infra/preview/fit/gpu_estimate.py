"""HBM of a train step without a compiler: for GPUs, which nothing compiles for where there is none. Pure.

Owns the count: weights and optimizer (model_sizes.py has the parameters), activations by remat policy, and how far off
it is where the TPU compiler's numbers are there to compare (tests/unit/test_gpu_estimate.py). Refuses to decide what is
closer than that error. Not compared with a real GPU.
"""

from __future__ import annotations

import dataclasses
import math

from infra.preview.fit.errors import MEMORY_KEYS
from infra.preview.fit.model_sizes import STATE_BYTES, Sizes, sizes
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict, Traffic
from training.sharding import resolve_mesh

ERROR = 0.25  # of the estimate; the largest found is 0.19, over the shipped stacks and the borderline cases
_GPU_SHARE = 0.75  # of a GPU's memory that JAX takes where XLA_PYTHON_CLIENT_MEM_FRACTION says nothing
_GIB = 2**30
_SHARDED = ("fsdp", "fsdp_transpose", "tensor", "tensor_sequence", "expert")  # axes over which weights are divided


def peak_gib(step: TrainStep) -> float | None:
    """GiB per device: state, what layers keep for the backward pass, and the largest of what is alive for a while."""
    training = step.spec.maxtext
    model = sizes(str(training.get("model_name", "")), training)
    if model is None:
        return None
    mesh = resolve_mesh(training, step.row.devices, step.workload.slices)
    shards = math.prod(mesh.ici.get(axis, 1) * mesh.dcn.get(axis, 1) for axis in _SHARDED)
    tokens = step.number("per_device_batch_size") * step.number("max_target_length")
    tensor = mesh.ici.get("tensor", 1)
    state = model.parameters * STATE_BYTES / shards
    activations = model.layers * tokens * _kept_per_token(model, step.remat_policy) / tensor
    return (state + activations + _alive(model, tokens, shards) / tensor) / _GIB


def _kept_per_token(model: Sizes, policy: str) -> float:
    """Bytes of bfloat16 that a layer keeps for a token; its input in any case."""
    qkv = model.query + 2 * model.key_value
    dots = {
        "full": 0,
        "save_out_proj": model.embedding,
        "save_qkv_proj": qkv,
        "save_dot_except_mlp": qkv + model.embedding,
        "save_dot_except_mlpwi": qkv + 2 * model.embedding,
        "minimal": qkv + 2 * model.embedding + 2 * model.mlp,
        "minimal_with_context": qkv + model.query + 2 * model.embedding + 2 * model.mlp,
        "none": 2 * (qkv + model.query + 2 * model.embedding + 2 * model.mlp),
    }
    return 2.0 * (model.embedding + dots.get(policy, dots["minimal"]))


def _alive(model: Sizes, tokens: float, shards: int) -> float:
    """Bytes of one layer's backward pass (weights of it and the next gathered, all its activations and their
    gradients), of the gradients, which are there as weights are but in bfloat16, and of the loss."""
    gathered = 2 * 2 * model.layer_parameters if shards > 1 else 0
    layer = 2 * 2 * tokens * (model.query * 2 + 2 * model.key_value + 2 * model.embedding + 2 * model.mlp)
    gradients = 2 * model.parameters / shards
    loss = tokens * model.vocabulary * (2 + 4) + (2 * model.vocabulary * model.embedding if shards > 1 else 0)
    return gradients + max(gathered + layer, loss)


def tflops_per_device(step: TrainStep) -> float | None:
    """Of the model in a step, counted as MaxText does: causal attention once, the table looked up for nothing."""
    training = step.spec.maxtext
    model = sizes(str(training.get("model_name", "")), training)
    if model is None:
        return None
    length = step.number("max_target_length")
    tokens = step.number("per_device_batch_size") * length
    layer = 2 * model.embedding * (2 * model.query + 2 * model.key_value) + 6 * model.embedding * model.mlp
    attention = 2 * length * model.query
    return 3 * tokens * (model.layers * (layer + attention) + 2 * model.embedding * model.vocabulary) / 1e12


def _traffic(step: TrainStep) -> tuple[Traffic, ...]:
    """Weights gathered twice and gradients scattered once, in bfloat16, within a node and between nodes."""
    training, row = step.spec.maxtext, step.row
    model = sizes(str(training.get("model_name", "")), training)
    mesh = resolve_mesh(training, row.devices, step.workload.slices)
    if model is None or "fsdp" not in mesh.ici:
        return ()
    moved = 3 * 2 * model.parameters / _GIB
    within, nodes = min(mesh.ici["fsdp"], row.devices_per_host), row.hosts
    inside = Traffic("ici", "fsdp", "all-gather and reduce-scatter", moved * (within - 1) / within)
    if nodes == 1:
        return (inside,)
    return (inside, Traffic("dcn", inside.axis, inside.operation, moved * (nodes - 1) / nodes / row.devices_per_host))


def verdict(step: TrainStep) -> FitVerdict:
    """Estimated; unknown where the estimate's error is larger than what is left or lacking."""
    row, request = step.row, step.request
    nobody_knows = dataclasses.replace(request.unknown(""), estimated=True)
    peak = peak_gib(step)
    if peak is None or row.hbm_gib is None:
        reason = f"no estimate for {request.model}: its layers are not of a kind that is counted"
        return dataclasses.replace(nobody_knows, reason=reason)
    hbm, flops = row.hbm_gib * _GPU_SHARE, tflops_per_device(step)
    counted = dataclasses.replace(
        nobody_knows, hbm_gib=hbm, peak_gib=peak, tflops_per_device=flops, traffic=_traffic(step)
    )
    if peak * (1 + ERROR) <= hbm:
        return dataclasses.replace(counted, fits=True)
    close = f"{peak:.1f} of {hbm:.1f} GiB by an estimate that may be {ERROR:.0%} off"
    if peak * (1 - ERROR) > hbm:
        return dataclasses.replace(counted, fits=False, reason=f"out of memory: {close}", keys=MEMORY_KEYS)
    return dataclasses.replace(counted, reason=f"too close to tell: {close}")
