"""How many parameters a model has, and the bytes of state that training keeps for each. Pure.

The sizes are MaxText's own, written to training/model_shapes.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra.paths import TRAINING

SHAPES = TRAINING / "model_shapes.json"
STATE_BYTES = 12  # of a parameter: its float32 weight and Adam's two moments
_FIELDS = frozenset({"base_num_decoder_layers", "num_experts_per_tok"})  # that a stack may set beside the model's name


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
    shape: dict[str, Any] = {"num_experts": 1, "num_experts_per_tok": 1, "logits_via_embedding": False}
    shape |= _shapes()[model] | {key: value for key, value in training.items() if key in _FIELDS}
    width, head = int(shape["base_emb_dim"]), int(shape["head_dim"])
    query, key_value = int(shape["base_num_query_heads"]) * head, int(shape["base_num_kv_heads"]) * head
    experts = int(shape["num_experts"])
    mlp = int(shape["base_moe_mlp_dim"] if experts > 1 else shape["base_mlp_dim"])
    layer = 2 * width * query + 2 * width * key_value + experts * 3 * width * mlp + 2 * width
    layer += width * experts if experts > 1 else 0  # the router
    layers, vocabulary = int(shape["base_num_decoder_layers"]), int(shape["vocab_size"])
    tables = 1 if shape["logits_via_embedding"] else 2
    total = layers * layer + tables * vocabulary * width + width
    active = mlp * (int(shape["num_experts_per_tok"]) if experts > 1 else 1)
    return Sizes(width, layers, query, key_value, active, layer, vocabulary, total)


@cache
def _shapes() -> dict[str, dict[str, Any]]:
    return json.loads(SHAPES.read_text())
