"""What becomes of the variables of a job's containers. Pure.

Owns which of them follow from the accelerator, which the hosts get anyway, and which no stack says. Refuses to own what
hosts get (training/gpu_environment.py, `slipway env`) and flags of XLA (flag_verdicts.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from infra.hardware import Accelerator
from infra.importing import flag_verdicts, secret_words
from infra.importing.draft import Draft, fields
from infra.importing.machines import Pool
from infra.targets.host_variables import HostVariable
from training import gpu_environment
from training.xla_flags import LIBTPU_INIT_ARGS, XLA_FLAGS, Flag

_SET = re.compile(
    r"MASTER_(ADDR|PORT)|RANK|LOCAL_RANK|NODE_RANK|CLUSTER_SPEC|TF_CONFIG|AIP_.*|CLOUD_ML_.*|JAX_COORDINATOR_.*"
    r"|JAX_PROCESS_.*|JAX_PLATFORMS|JOB_INDEX|JOB_COMPLETION_INDEX|PROCESSES_IN_JOB"
)
_NETWORKS = {"tcpxo": ("fastrak", "tcpxo"), "tcpx": ("tcpx",)}  # as MaxText's script of 2024 names them
_OTHERS = (
    (r"NVTE_.*", "hosts do not install TransformerEngine, which reads it"),
    (r"TF_CPP_.*", "how much XLA writes into the log is Slipway's own choice"),
    (r"LD_LIBRARY_PATH|LIBRARY_PATH|PATH|PYTHONPATH|VIRTUAL_ENV", "hosts install an environment of their own"),
    (r"HF_.*|HUGGING.*|TRANSFORMERS_.*|WANDB_.*", "hosts read prepared text and its tokenizer, and no hub"),
)
_USED = "its value is in the arguments that name it"
NO_KEY = "no key of a stack sets a variable of the training"


@dataclass(frozen=True)
class Variable:
    """paths: of name and value, in every pool that has it."""

    name: str
    value: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        text = " ".join(self.value.split())
        return f"{self.name}={text if len(text) <= 48 else f'{text[:45]}...'}"


def of_pools(found: Sequence[Pool], draft: Draft) -> dict[str, Variable]:
    """By name, without secrets. Where pools differ, the first one's value holds, and it is said."""
    together: dict[str, list[Variable]] = {}
    for pool in found:
        entries = pool.container.get("env")
        own: dict[str, Variable] = {}
        for entry in entries.items if entries else []:
            parts = fields(entry, draft.account)
            name, value = parts.get("name"), parts.get("value")
            if name is None:
                draft.account.dropped(entry.paths, "env", "has no name")
                continue
            variable = Variable(name.text, value.text if value else "", entry.paths)
            if earlier := own.get(variable.name):
                why = f"pool {pool.index} has it twice; the last holds"
                draft.account.contradictory(earlier.paths, variable.name, why)
            own[variable.name] = variable
        for name, variable in own.items():
            together.setdefault(name, []).append(variable)
    variables = (_of_all(each, draft) for each in together.values())
    return {variable.name: variable for variable in variables if not _is_secret(variable, draft)}


def _of_all(variables: list[Variable], draft: Draft) -> Variable:
    paths = tuple(path for variable in variables for path in variable.paths)
    first = variables[0]
    values = dict.fromkeys(variable.value for variable in variables)
    secrets = [secret_words.take(first.name, value, draft) for value in values]
    if len(values) > 1 and not any(secrets):
        shown = " and ".join(str(Variable("", value, ())).removeprefix("=") for value in values)
        draft.account.contradictory(
            paths, first.name, f"pools have {shown}; hosts of a stack are alike, and the first pool's holds"
        )
    return Variable(first.name, first.value, paths)


def _is_secret(variable: Variable, draft: Draft) -> bool:
    if not secret_words.take(variable.name, variable.value, draft):
        return False
    part = f"{variable.name}={secret_words.HIDDEN}"
    draft.account.dropped(variable.paths, part, secret_words.advice(variable.name, draft))
    return True


def follow_from(variables: Mapping[str, Variable], row: Accelerator, draft: Draft) -> dict[str, Variable]:
    """Judges what follows from the accelerator; returns the others."""
    counts = {
        **dict.fromkeys(("NNODES", "NUM_NODES", "N_NODES", "NUM_HOSTS"), (row.hosts, "hosts")),
        **dict.fromkeys(
            ("GPUS_PER_NODE", "NUM_GPUS_PER_NODE", "LOCAL_WORLD_SIZE"), (row.chips_per_host, "GPUs a host")
        ),
        "WORLD_SIZE": (row.hosts, "hosts, and a process on each"),
    }
    left: dict[str, Variable] = {}
    for name, variable in variables.items():
        if name in counts:
            count, what = counts[name]
            if variable.value == str(count):
                draft.account.dropped(variable.paths, str(variable), f"follows from accelerator {row.name}")
            else:
                why = f"the machines are {count} {what}, and that holds"
                draft.account.contradictory(variable.paths, str(variable), why, "accelerator")
        elif name == "USE_GPUDIRECT":
            _network(variable, row, draft)
        elif _SET.fullmatch(name):
            draft.account.dropped(variable.paths, str(variable), "is set where the training starts, for each host")
        else:
            left[name] = variable
    return left


def _network(variable: Variable, row: Accelerator, draft: Draft) -> None:
    own = row.gpu_network or "no network that is known"
    if variable.value.lower() in _NETWORKS.get(own, ()):
        draft.account.dropped(variable.paths, str(variable), f"follows from accelerator {row.name}: {own}")
    else:
        why = f"{row.name} has {own}, and that holds"
        draft.account.contradictory(variable.paths, str(variable), why, "accelerator")


def judge(variables: Iterable[Variable], hosts: Sequence[HostVariable], plugin: str, draft: Draft) -> tuple[Flag, ...]:
    """Judges what is left, against what hosts get. plugin: what NCCL's plugin between them is called, or nothing.

    Returns the flags of XLA that a stack has to say if it shall have them.
    """
    given = {each.name: each for each in hosts if each.name not in (XLA_FLAGS, LIBTPU_INIT_ARGS)}
    flags: tuple[Flag, ...] = ()
    for variable in variables:
        if variable.name == XLA_FLAGS:
            key = "xla_flags" if "xla_flags" in draft.known else ""
            flags = flag_verdicts.judge(variable.value, draft.account, hosts, variable.paths, key)
            if not variable.value.strip():
                draft.account.dropped(variable.paths, XLA_FLAGS, "is empty")
        else:
            why = _why(variable, given, plugin)
            used = why == NO_KEY and variable.name in draft.used
            draft.account.dropped(variable.paths, str(variable), _USED if used else why)
    return flags


def _why(variable: Variable, given: Mapping[str, HostVariable], plugin: str) -> str:
    mine = given.get(variable.name)
    if mine and mine.value == variable.value:
        return f"hosts have it without being told: {mine.why}" if mine.why else "hosts have it without being told"
    if (
        mine
        and variable.name.startswith("NCCL_")
        and plugin
        and variable.name not in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS")
    ):
        return f"hosts have {mine.value}: {plugin} compares it with its own set, and ends a job that differs"
    if mine:
        return f"hosts have {mine.value}: {mine.why}"
    if variable.name.startswith("NCCL_") and plugin:
        once = next((each.why for each in gpu_environment.SETTINGS if each.name == variable.name), "")
        return once or f"the set of {plugin} is chosen as a whole, and this is not in it"
    return next((why for pattern, why in _OTHERS if re.fullmatch(pattern, variable.name)), NO_KEY)
