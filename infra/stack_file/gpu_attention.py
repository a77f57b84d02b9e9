"""Attention on GPUs: which of MaxText's kernels train there, and which of them keep packed documents apart. Pure.

Owns the choice where a stack makes none, and the refusal of one that cannot be. MaxText's own default on GPUs is a
kernel of tokamax that calls `pallas.dot`, which JAX 0.12 has no longer: seen on an H200, where no step was made. That
it is still so is asked of the locked packages by tests/training/test_gpu_attention.py.
"""

from __future__ import annotations

from collections.abc import Mapping

FAST = "cudnn_flash_jax"  # cuDNN's; MaxText gives it the causal mask alone (layers/attention_op.py of 0.2.5)
SAFE = "dot_product"  # XLA's own: takes half as long again as cuDNN's and memory with the square of the length
_GONE = ("autoselected", "flash")
_NOT_INSTALLED = "cudnn_flash_te"


def default(text: bool, training: Mapping[str, object]) -> str:
    """`text`: whether it trains on documents, which MaxText packs into a sequence unless it is told not to."""
    return SAFE if text and training.get("packing", True) else FAST


def problem(text: bool, training: Mapping[str, object]) -> str | None:
    """Why the stack's own choice cannot be, and what to write instead."""
    chosen = training.get("attention")
    if chosen in _GONE:
        return (
            f"attention {chosen} is on GPUs a kernel that the locked JAX cannot build (it needs `pallas.dot`); write "
            f"{FAST}, or {SAFE} where documents are packed, or leave the key out"
        )
    if chosen == _NOT_INSTALLED:
        return f"attention {chosen} needs TransformerEngine, which hosts do not install; write {FAST} or {SAFE}"
    if chosen == FAST and default(text, training) == SAFE:
        return (
            f"attention {chosen} lets documents that are packed into one sequence see each other; write "
            f"`packing: false` beside it, or attention: {SAFE}"
        )
    return None
