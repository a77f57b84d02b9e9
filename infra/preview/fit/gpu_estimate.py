"""HBM of a train step without a compiler: for GPUs, which nothing compiles for where there is none. Pure.

Owns the count: parameters from the model's sizes (training/model_shapes.json), optimizer, activations by remat policy,
and how far it is off where the TPU compiler's numbers are there to compare (tests/unit/test_gpu_estimate.py).
Refuses to decide what is closer than that error. Not compared with a real GPU.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra.paths import TRAINING
from infra.preview.fit.errors import MEMORY_KEYS
from infra.preview.fit.train_step import Question
from infra.preview.fit.verdict import Traffic, Verdict
from training.sharding import resolve_mesh

SHAPES = TRAINING / "model_shapes.json"
ERROR = 0.25  # of the estimate; the largest found is 0.19, over the shipped stacks and the borderline cases
_GPU_SHARE = 0.75  # of a GPU's memory that JAX takes where XLA_PYTHON_CLIENT_MEM_FRACTION says nothing
_GIB = 2**30
_STATE_BYTES = 12  # float32 weights and Adam's two moments
_SHARDED = ("fsdp", "fsdp_transpose", "tensor", "tensor_sequence", "expert")  # axes over which weights are divided


@dataclass(frozen=True)
class Sizes:
    """Of one model; `mlp` is the width of what one token's layer computes, experts of a token together."""

    embedding: int
    layers: int
    query: int  # heads x head size
    key_value: int
    mlp: int
    layer_parameters: int
    vocabulary: int
    parameters: int


def sizes(model: str, training: Mapping[str, Any]) -> Sizes | None:
    """None for a model that the count does not describe."""
    if model not in _shapes():
        return None
    of: dict[str, Any] = {"num_experts": 1, "num_experts_per_tok": 1, "logits_via_embedding": False}
    of |= _shapes()[model] | {key: value for key, value in training.items() if key in _FIELDS}
    width, head = int(of["base_emb_dim"]), int(of["head_dim"])
    query, key_value = int(of["base_num_query_heads"]) * head, int(of["base_num_kv_heads"]) * head
    experts = int(of["num_experts"])
    mlp = int(of["base_moe_mlp_dim"] if experts > 1 else of["base_mlp_dim"])
    layer = 2 * width * query + 2 * width * key_value + experts * 3 * width * mlp + 2 * width
    layer += width * experts if experts > 1 else 0  # the router
    layers, vocabulary = int(of["base_num_decoder_layers"]), int(of["vocab_size"])
    tables = 1 if of["logits_via_embedding"] else 2
    total = layers * layer + tables * vocabulary * width + width
    active = mlp * (int(of["num_experts_per_tok"]) if experts > 1 else 1)
    return Sizes(width, layers, query, key_value, active, layer, vocabulary, total)


def peak_gib(question: Question) -> float | None:
    """GiB per device: state, what layers keep for the backward pass, and the largest of what is alive for a while."""
    training = question.spec.maxtext
    model = sizes(str(training.get("model_name", "")), training)
    if model is None:
        return None
    mesh = resolve_mesh(training, question.row.devices, question.settings.slices)
    shards = 1
    for axis in _SHARDED:
        shards *= mesh.ici.get(axis, 1) * mesh.dcn.get(axis, 1)
    tokens = _number(training["per_device_batch_size"]) * _number(training["max_target_length"])
    tensor = mesh.ici.get("tensor", 1)
    state = model.parameters * _STATE_BYTES / shards
    kept = model.layers * tokens * _kept_per_token(model, question.remat_policy) / tensor
    return (state + kept + _alive(model, tokens, shards) / tensor) / _GIB


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


def tflops_per_device(question: Question) -> float | None:
    """Of the model in a step, counted as MaxText does: causal attention once, the table looked up for nothing."""
    training = question.spec.maxtext
    model = sizes(str(training.get("model_name", "")), training)
    if model is None:
        return None
    length = _number(training["max_target_length"])
    tokens = _number(training["per_device_batch_size"]) * length
    layer = 2 * model.embedding * (2 * model.query + 2 * model.key_value) + 6 * model.embedding * model.mlp
    attention = 2 * length * model.query
    return 3 * tokens * (model.layers * (layer + attention) + 2 * model.embedding * model.vocabulary) / 1e12


def _traffic(question: Question) -> tuple[Traffic, ...]:
    """Weights gathered twice and gradients scattered once, in bfloat16, within a node and between nodes."""
    training, row = question.spec.maxtext, question.row
    model = sizes(str(training.get("model_name", "")), training)
    mesh = resolve_mesh(training, row.devices, question.settings.slices)
    if model is None or "fsdp" not in mesh.ici:
        return ()
    moved = 3 * 2 * model.parameters / _GIB
    within, nodes = min(mesh.ici["fsdp"], row.devices_per_host), row.hosts
    found = [Traffic("ici", "fsdp", "all-gather and reduce-scatter", moved * (within - 1) / within)]
    if nodes > 1:
        between = moved * (nodes - 1) / nodes / row.devices_per_host
        found.append(Traffic("dcn", "fsdp", "all-gather and reduce-scatter", between))
    return tuple(found)


def verdict(question: Question) -> Verdict:
    """Estimated; unknown where the estimate's error is larger than what is left or lacking."""
    row, request = question.row, question.request
    nobody_knows = dataclasses.replace(request.unknown(""), estimated=True)
    peak = peak_gib(question)
    if peak is None or row.hbm_gib is None:
        reason = f"no estimate for {request.model}: its layers are not of a kind that is counted"
        return dataclasses.replace(nobody_knows, reason=reason)
    hbm, flops = row.hbm_gib * _GPU_SHARE, tflops_per_device(question)
    counted = dataclasses.replace(
        nobody_knows, hbm_gib=hbm, peak_gib=peak, tflops_per_device=flops, traffic=_traffic(question)
    )
    if peak * (1 + ERROR) <= hbm:
        return dataclasses.replace(counted, fits=True)
    close = f"{peak:.1f} of {hbm:.1f} GiB by an estimate that may be {ERROR:.0%} off"
    if peak * (1 - ERROR) > hbm:
        return dataclasses.replace(counted, fits=False, reason=f"out of memory: {close}", keys=MEMORY_KEYS)
    return dataclasses.replace(counted, reason=f"too close to tell: {close}")


_FIELDS = frozenset({"base_num_decoder_layers", "num_experts_per_tok"})


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    return json.loads(SHAPES.read_text())


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
