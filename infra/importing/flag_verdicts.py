"""What becomes of each flag of an XLA_FLAGS string under the locked jaxlib. Pure.

Owns which flags are gone and what replaces them. Which ones jaxlib knows is a table that jaxlib itself has filled
(training/jaxlib_flags.json), and which ones hosts are given anyway is theirs to say (`slipway env`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from infra.importing.findings import Account
from infra.paths import TRAINING
from infra.targets.host_variables import HostVariable
from training.xla_flags import XLA_FLAGS, Flag, FlagError, merge, parse

TABLE = TRAINING / "jaxlib_flags.json"
_ORIGIN = "the file"

# Gone from XLA, and what to write instead, with who says so.
_ASYNC = "collectives are asynchronous anyway, and --xla_gpu_disable_async_collectives names those that are not"
_GONE = {
    "--xla_gpu_graph_level": "write --xla_gpu_enable_command_buffer= for level 0 (openxla/xla#30187)",
    **dict.fromkeys(
        (
            *(f"--xla_gpu_enable_async_{kind}" for kind in ("all_gather", "all_reduce", "reduce_scatter")),
            *(f"--xla_gpu_enable_async_{kind}" for kind in ("collectives", "collective_permute", "all_to_all")),
        ),
        f"{_ASYNC} (openxla/xla#11422)",
    ),
    "--xla_gpu_enable_triton_softmax_fusion": "nothing replaces it: XLA decides (openxla/xla 896e241d)",
    "--xla_gpu_simplify_all_fp_conversions": "write --xla_allow_excess_precision, which is on (NVIDIA/JAX-Toolbox#827)",
    "--xla_gpu_enable_address_computation_fusion": (
        "write --xla_gpu_enable_dynamic_slice_fusion, which is on (openxla/xla a517228d)"
    ),
    "--xla_gpu_run_post_layout_collective_pipeliner": "nothing replaces it: obsolete (openxla/xla#17950)",
    "--xla_gpu_enable_pipelined_collectives": (
        "write --xla_gpu_enable_pipelined_all_reduce, _all_gather and _reduce_scatter (openxla/xla#44228)"
    ),
}
_ALSO = {  # known, but another has taken over
    **{
        f"--xla_gpu_enable_pipelined_{kind}": f"--xla_gpu_pipeline_{kind} says it finer (openxla/xla#45836)"
        for kind in ("all_gather", "all_reduce", "reduce_scatter")
    },
}


@dataclass(frozen=True)
class JaxlibFlags:
    """What a jaxlib says of its flags. switches: those whose default is on or off; ignored: known, without effect."""

    version: str
    switches: Mapping[str, str]
    ignored: frozenset[str]
    others: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return self.others | self.ignored | frozenset(self.switches)


@cache
def of_locked_jaxlib() -> JaxlibFlags:
    table = cast(dict[str, Any], json.loads(TABLE.read_text(encoding="utf-8")))
    switches = dict.fromkeys(table["on"], "true") | dict.fromkeys(table["off"], "false")
    return JaxlibFlags(table["jaxlib"], switches, frozenset(table["ignored"]), frozenset(table["others"]))


def judge(
    text: str, account: Account, hosts: Iterable[HostVariable], paths: Iterable[str] = (), key: str = ""
) -> tuple[Flag, ...]:
    """Says of each flag what becomes of it. hosts: what hosts get anyway. key: of the stack that takes others, if any.

    Returns those that differ from what hosts get, which a stack has to say if it shall have them.
    """
    where = tuple(paths)
    try:
        flags = parse(text, XLA_FLAGS, _ORIGIN)
    except FlagError as error:
        account.dropped(where, XLA_FLAGS, str(error))
        return ()
    for name in sorted({flag.name for flag in flags}):
        values = dict.fromkeys(str(flag.value) for flag in flags if flag.name == name)
        if len(values) > 1:
            why = f"is given {len(values)} times: {', '.join(values)}; the last holds, as in jaxlib"
            account.contradictory(where, name, why)
    ours = _flags_of(hosts)
    return tuple(flag for flag in merge(XLA_FLAGS, flags).flags if not _settled(flag, ours, account, where, key))


def _flags_of(hosts: Iterable[HostVariable]) -> dict[str, HostVariable]:
    """What hosts get of flags, by name; `slipway env` has each on a line of its own."""
    return {each.value.partition("=")[0]: each for each in hosts if each.name == XLA_FLAGS}


def _settled(flag: Flag, ours: Mapping[str, HostVariable], account: Account, paths: tuple[str, ...], key: str) -> bool:
    """Whether nothing is left to say of it in a stack."""
    jaxlib, part, value = of_locked_jaxlib(), str(flag), _spelled(flag.value)
    if flag.name not in jaxlib.names:
        account.dropped(paths, part, _gone(flag.name, jaxlib))
        return True
    mine = ours.get(flag.name)
    if mine and _spelled(mine.value.partition("=")[2] or None) == value:
        account.dropped(paths, part, f"hosts have it without being told: {mine.why}")
        return True
    if flag.name in jaxlib.ignored:
        account.dropped(paths, part, f"jaxlib {jaxlib.version} takes it and does nothing")
        return True
    if not mine and jaxlib.switches.get(flag.name) == value:
        account.dropped(paths, part, f"is the default of jaxlib {jaxlib.version}")
        return True
    also = f"; {_ALSO[flag.name]}" if flag.name in _ALSO else ""
    instead = f"instead of hosts' {mine.value.partition('=')[2]}" if mine else "hosts do not have it"
    if key:
        account.kept(paths, part, key, f"{instead}{also}")
    else:
        account.dropped(paths, part, f"no key of this stack sets a flag; {instead}{also}")
    return False


def _spelled(value: str | None) -> str:
    """A switch has several spellings."""
    word = "true" if value is None else value.lower()
    return {"1": "true", "0": "false"}.get(word, word)


def _gone(name: str, jaxlib: JaxlibFlags) -> str:
    aborts = f"jaxlib {jaxlib.version} does not know it, and every host would abort at its start"
    if name in _GONE:
        return f"{aborts}; {_GONE[name]}"
    nearest = difflib.get_close_matches(name, jaxlib.names, n=1, cutoff=0.85)
    return f"{aborts}; nearest: {nearest[0]}" if nearest else aborts
