"""Which of MaxText's attention the locked packages can build on GPUs, as infra/stack_file/gpu_attention.py has it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import jax
import pytest
from jax.experimental import pallas


def test_tokamaxs_kernel_calls_what_this_jax_has_no_longer() -> None:
    """Once this fails, `autoselected` and `flash` may be taken again, if a GPU says so too."""
    found = importlib.util.find_spec("tokamax._src.ops.attention.pallas_triton")
    assert found and found.origin
    tree = ast.parse(Path(found.origin).read_text())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "pl.dot" in called
    with pytest.raises(AttributeError, match=r"removed in JAX v0\.12"):
        _ = pallas.dot  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert jax.__version__.startswith("0.12.")


def test_cudnns_attention_gets_no_segments_of_maxtext() -> None:
    """Why packed documents would see each other: its call has a causal mask and nothing else."""
    found = importlib.util.find_spec("maxtext.layers.attention_op")
    assert found and found.origin
    tree = ast.parse(Path(found.origin).read_text())
    (kernel,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "cudnn_jax_flash_attention"
    )
    (branch,) = (node for node in kernel.body if isinstance(node, ast.If))
    assert "MODEL_MODE_AUTOREGRESSIVE" in ast.unparse(branch.test)
    trained = "\n".join(map(ast.unparse, branch.orelse))
    assert "mask_type=MaskType.CAUSAL" in trained
    assert "segment" not in trained
