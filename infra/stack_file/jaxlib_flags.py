"""Which flags of XLA the locked jaxlib has, from training/jaxlib_flags.json, without a jaxlib.

Owns what became of those that are gone, with who says so. Which ones hosts are given is in training/gpu_environment.py.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from infra.paths import TRAINING

TABLE = TRAINING / "jaxlib_flags.json"
_ASYNC = "collectives are asynchronous anyway, and --xla_gpu_disable_async_collectives names those that are not"
_KINDS = ("all_gather", "all_reduce", "reduce_scatter", "collectives", "collective_permute", "all_to_all")
_INSTEAD = {
    "--xla_gpu_graph_level": "write --xla_gpu_enable_command_buffer= for level 0 (openxla/xla#30187)",
    **dict.fromkeys((f"--xla_gpu_enable_async_{kind}" for kind in _KINDS), f"{_ASYNC} (openxla/xla#11422)"),
    "--xla_gpu_enable_triton_softmax_fusion": "nothing replaces it: XLA decides (openxla/xla 896e241d)",
    "--xla_gpu_simplify_all_fp_conversions": (
        "write --xla_allow_excess_precision, which is on anyway (NVIDIA/JAX-Toolbox#827)"
    ),
    "--xla_gpu_enable_address_computation_fusion": (
        "write --xla_gpu_enable_dynamic_slice_fusion, which is on anyway (openxla/xla a517228d)"
    ),
    "--xla_gpu_run_post_layout_collective_pipeliner": "nothing replaces it: obsolete (openxla/xla#17950)",
    "--xla_gpu_enable_pipelined_collectives": (
        "write --xla_gpu_enable_pipelined_all_reduce, _all_gather and _reduce_scatter (openxla/xla#44228)"
    ),
}
_FINER = {  # known, but another says more
    f"--xla_gpu_enable_pipelined_{kind}": f"--xla_gpu_pipeline_{kind} says it finer (openxla/xla#45836)"
    for kind in _KINDS[:3]
}


@dataclass(frozen=True)
class JaxlibFlags:
    """What a jaxlib says of its flags. switches: their defaults, true or false; ignored: taken, and change nothing."""

    version: str
    switches: Mapping[str, str]
    ignored: frozenset[str]
    others: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return self.others | self.ignored | frozenset(self.switches)

    def problem(self, name: str) -> str | None:
        """One sentence on a flag that it does not have, and what replaces it."""
        if name in self.names:
            return None
        aborts = f"jaxlib {self.version} does not know it, and every host would abort at its start"
        if instead := _INSTEAD.get(name):
            return f"{aborts}; {instead}"
        nearest = difflib.get_close_matches(name, self.names, n=1, cutoff=0.85)
        return f"{aborts}; nearest: {nearest[0]}" if nearest else aborts

    def finer(self, name: str) -> str | None:
        """Which flag says more than one that it has."""
        return _FINER.get(name)


@cache
def of_locked_jaxlib() -> JaxlibFlags:
    table = cast(dict[str, Any], json.loads(TABLE.read_text(encoding="utf-8")))
    switches = dict.fromkeys(table["on"], "true") | dict.fromkeys(table["off"], "false")
    return JaxlibFlags(table["jaxlib"], switches, frozenset(table["ignored"]), frozenset(table["others"]))
