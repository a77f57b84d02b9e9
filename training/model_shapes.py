"""`python -m training.model_shapes > training/model_shapes.json`: the sizes of MaxText's models, as a table.

Runs in the hosts' environment, so the table is of the locked MaxText; infra/preview/vocabulary.py reads it
and imports no MaxText. Owns which decoders a simple count describes; the others are left out.
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from typing import Any

import yaml

# Attention, an MLP with a gate (or experts of it) and two norms a layer: nothing else has parameters worth counting.
DECODERS = ("llama2", "mistral", "mixtral", "qwen3")
_FIELDS = (
    "base_emb_dim", "base_num_query_heads", "base_num_kv_heads", "base_mlp_dim", "base_num_decoder_layers", "head_dim",
    "vocab_size", "logits_via_embedding", "num_experts", "num_experts_per_tok", "base_moe_mlp_dim",
)  # fmt: skip


def shapes() -> dict[str, dict[str, Any]]:
    """By model name, what its file says of the fields; what is not there is MaxText's default."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(files("maxtext.configs").joinpath("models").iterdir(), key=lambda path: path.name):
        if not path.name.endswith(".yml"):
            continue
        model: dict[str, Any] = yaml.safe_load(path.read_text())
        if model.get("decoder_block") in DECODERS:
            found[path.name.removesuffix(".yml")] = {key: model[key] for key in _FIELDS if key in model}
    return found


if __name__ == "__main__":
    json.dump(shapes(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
