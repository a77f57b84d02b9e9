"""`python -m training.maxtext_schema > training/maxtext_schema.json`: MaxText's typed fields as a table.

Runs in the hosts' environment, so the table is of the locked MaxText; infra/ checks a stack's `training:` against it
without importing MaxText. Owns the table's form. Refuses to own what Slipway sets itself
(infra/stack_file/maxtext_fields.py).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

with contextlib.redirect_stdout(sys.stderr):  # MaxText prints while it is imported, and stdout is the table
    from maxtext.configs import types

# MaxText takes these as free text and finds out about a wrong one only while it builds the model on paid devices.
# Read in 0.2.5: layers/attention_op.py (apply_attention), layers/nnx_decoders.py (get_remat_policy).
_FREE_TEXT = {
    "attention": [
        "autoselected", "cudnn_flash_jax", "cudnn_flash_te", "dot_product", "flash", "paged",
        "vllm_batched_rpa", "vllm_rpa",
    ],
    "remat_policy": [
        "custom", "full", "minimal", "minimal_flash", "minimal_offloaded", "minimal_with_context",
        "minimal_with_context_and_quantization", "minimal_with_quantization", "none", "qkv_proj_offloaded",
        "save_dot_except_mlp", "save_dot_except_mlpwi", "save_dot_with_context_except_mlp", "save_out_proj",
        "save_qkv_proj",
    ],
}  # fmt: skip


def schema() -> dict[str, Any]:
    """Fields with their JSON types and, where MaxText lists them, the allowed values; models by name."""
    fields = {name: _field(info) for name, info in sorted(types.MaxTextConfig.model_fields.items())}
    for name, values in _FREE_TEXT.items():
        fields[name]["enum"] = values
    return {
        "maxtext": importlib.metadata.version("maxtext"),
        "jax": importlib.metadata.version("jax"),
        "fields": fields,
        "models": sorted(get_args(types.ModelName)),
    }


def _field(info: FieldInfo) -> dict[str, Any]:
    annotation: Any = info.annotation
    document = TypeAdapter[Any](annotation).json_schema()
    variants = list(_variants(document, document.get("$defs", {})))
    found = {kind for variant in variants for kind in _kinds(variant)}
    entry: dict[str, Any] = {"types": sorted(found)}
    values = [value for variant in variants for value in _values(variant)]
    if values and all(_values(variant) or variant.get("type") == "null" for variant in variants):
        entry["enum"] = sorted(set(values), key=str)
    return entry


def _variants(document: dict[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The alternatives of a JSON schema, references followed."""
    if reference := document.get("$ref"):
        yield from _variants(definitions[reference.rpartition("/")[2]], definitions)
    elif alternatives := document.get("anyOf"):
        for alternative in alternatives:
            yield from _variants(alternative, definitions)
    else:
        yield document


def _values(variant: dict[str, Any]) -> list[Any]:
    return [variant["const"]] if "const" in variant else variant.get("enum", [])


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _kinds(variant: dict[str, Any]) -> list[str]:
    if "type" in variant:
        return [variant["type"]]
    return [_KINDS[type(value)] for value in _values(variant)] or ["any"]


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
