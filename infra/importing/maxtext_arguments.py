"""MaxText's `key=value` arguments as keys of a stack. Pure.

Owns which of them a stack says elsewhere, and a mesh over hosts as a mesh of one slice. Which fields there are and what
they may be is said by the checks of every stack (infra/stack_file/).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from infra.hardware import Accelerator
from infra.importing import secret_words
from infra.importing.command_line import unset
from infra.importing.draft import Draft
from infra.importing.job_fields import hosts_of_name
from infra.stack_file import gpu_attention, maxtext_fields
from training.sharding import AXES, MeshError, resolve_mesh

_TEXT = "until `slipway:data` names text, as docs/data.md has it, the stack trains on synthetic data"
_RUN_NAME = "a run is named after its stack and its settings, so that no other run is continued by mistake"


@dataclass(frozen=True)
class Argument:
    """paths: of the value of the file that it stands in."""

    name: str
    text: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}={self.text}"


def read(words: Iterable[str], paths: tuple[str, ...], draft: Draft) -> list[Argument]:
    """The arguments among a command's words; what else is there is said."""
    found: list[Argument] = []
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            draft.account.dropped(paths, word, _of_word(word))
        elif secret_words.take(name, text, draft):
            draft.account.dropped(paths, f"{name}={secret_words.HIDDEN}", secret_words.advice(name, draft))
        else:
            found.append(Argument(name.removeprefix("--"), text.strip(), paths))
    return found


def _of_word(word: str) -> str:
    if word.endswith("base.yml"):
        return "a stack starts from MaxText's own base.yml"
    if word.endswith((".yml", ".yaml")):
        return "its fields are not in this file; write those that you want below `slipway:training:`"
    return "is no `key=value` of MaxText"


def judge(arguments: Iterable[Argument], row: Accelerator, draft: Draft) -> None:
    """Puts them into the draft; the last of those with one name holds."""
    last: dict[str, Argument] = {}
    for argument in arguments:
        earlier = last.get(argument.name)
        if earlier and earlier.text != argument.text:
            why = f"is given as {earlier.text} and as {argument.text}; the last holds"
            draft.account.contradictory((*earlier.paths, *argument.paths), argument.name, why)
        last[argument.name] = argument
    axes = {f"{network}_{axis}_parallelism" for network in ("ici", "dcn") for axis in AXES}
    mesh = {name: last.pop(name) for name in list(last) if name in axes}
    for argument in last.values():
        _one(argument, row, draft)
    _mesh(mesh, row, draft)
    _schedule(draft)


def _one(argument: Argument, row: Accelerator, draft: Draft) -> None:
    name, text, account = argument.name, argument.text, draft.account
    if variable := unset(text):
        account.dropped(argument.paths, str(argument), f"{variable} is not in this file; write its value")
    elif name in _ELSEWHERE:
        _ELSEWHERE[name](argument, row, draft)
    elif name.startswith(("dataset_", "grain_", "hf_", "tfds_", "eval_dataset", "train_split", "eval_split")):
        account.dropped(argument.paths, str(argument), f"hosts read text that `up` has prepared; {_TEXT}")
    elif name in maxtext_fields.OWNED:
        account.dropped(argument.paths, str(argument), f"set by Slipway: {maxtext_fields.OWNED[name]}")
    else:
        _field(argument, row, draft)


def _field(argument: Argument, row: Accelerator, draft: Draft) -> None:
    value = typed(argument.name, argument.text)
    problem = maxtext_fields.problem(argument.name, value)
    if not problem and row.platform == "gpu":
        problem = gpu_attention.problem(False, {argument.name: value})
    if problem:
        draft.account.dropped(argument.paths, str(argument), problem.removeprefix(f"training.{argument.name} "))
        return
    draft.training[argument.name] = value
    draft.account.kept(argument.paths, str(argument), f"training.{argument.name}")


def typed(name: str, text: str) -> Any:
    """A value as MaxText reads it from a command line: YAML, unless the field is text."""
    field: Mapping[str, Any] = maxtext_fields.schema()["fields"].get(name, {})
    kinds = set(field.get("types", ()))
    if kinds <= {"string", "null"} and text:
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, str) and kinds & {"number", "integer"} and re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", value):
        return float(value)  # 1e-5 is text in YAML 1.1
    return value


def _steps(argument: Argument, _: Accelerator, draft: Draft) -> None:
    if not re.fullmatch(r"[1-9]\d{0,7}", argument.text):
        draft.account.dropped(argument.paths, str(argument), "no number of steps; a stack has 1 or more")
        return
    draft.keys["steps"] = int(argument.text)
    draft.account.kept(argument.paths, str(argument), "steps")


def _runs(argument: Argument, _: Accelerator, draft: Draft) -> None:
    if not argument.text.startswith("gs://"):
        why = "checkpoints and metrics go into the foundation's bucket"
        draft.account.dropped(argument.paths, str(argument), why)
        return
    place = argument.text.rstrip("/")
    earlier = draft.keys.get("runs")
    if earlier and earlier != place:
        why = f"another key has {earlier}, which holds: a run has one place"
        draft.account.contradictory(argument.paths, str(argument), why, "runs")
        return
    draft.keys["runs"] = place
    why = "in a directory of the stack's name; hosts need roles/storage.objectUser on that bucket"
    draft.account.renamed(argument.paths, str(argument), "runs", why)


def _dataset(argument: Argument, _: Accelerator, draft: Draft) -> None:
    if argument.text == "synthetic":
        draft.keys["data"] = "synthetic"
        draft.account.renamed(argument.paths, str(argument), "data")
    else:
        draft.account.dropped(argument.paths, str(argument), f"hosts read text that `up` has prepared; {_TEXT}")


def _hardware(argument: Argument, row: Accelerator, draft: Draft) -> None:
    if argument.text.partition("_")[0] == row.platform:
        draft.account.dropped(argument.paths, str(argument), f"follows from accelerator {row.name}")
    else:
        why = f"{row.name} is of platform {row.platform}, and that holds"
        draft.account.contradictory(argument.paths, str(argument), why, "accelerator")


def _run_name(argument: Argument, row: Accelerator, draft: Draft) -> None:
    draft.account.dropped(argument.paths, str(argument), _RUN_NAME)
    hosts_of_name(argument.text, argument.paths, row, draft)


def _slices(argument: Argument, row: Accelerator, draft: Draft) -> None:
    if argument.text in ("1", str(row.hosts), "-1"):
        draft.account.dropped(argument.paths, str(argument), f"the hosts of {row.name} are one slice")
    else:
        why = f"the job has {row.hosts} hosts, which are one slice of {row.name}, and that holds"
        draft.account.contradictory(argument.paths, str(argument), why, "accelerator")


_ELSEWHERE = {
    "steps": _steps,
    "base_output_directory": _runs,
    "dataset_type": _dataset,
    "hardware": _hardware,
    "run_name": _run_name,
    "num_slices": _slices,
}


def _mesh(mesh: Mapping[str, Argument], row: Accelerator, draft: Draft) -> None:
    """Jobs of MaxText say which axis is over hosts (dcn_) and which is in one (ici_); hosts of a stack are a slice."""
    if not mesh:
        return
    sizes = {name: typed(name, argument.text) for name, argument in mesh.items()}
    try:
        found = resolve_mesh(sizes, row.devices_per_host, row.hosts)
    except MeshError as error:
        _mesh_of_one_slice(mesh, sizes, row, draft, str(error))
        return
    axes = {axis: found.ici.get(axis, 1) * found.dcn.get(axis, 1) for axis in AXES}
    for axis, size in axes.items():
        if size > 1:
            draft.training[f"ici_{axis}_parallelism"] = size
    for name, argument in mesh.items():
        axis = name.removeprefix("ici_").removeprefix("dcn_").removesuffix("_parallelism")
        key, size = f"ici_{axis}_parallelism", axes[axis]
        if size == 1:
            draft.account.dropped(argument.paths, str(argument), "is 1 without being said")
        elif name == key and str(size) == argument.text:
            draft.account.kept(argument.paths, str(argument), f"training.{key}")
        else:
            why = f"{size}, over all {row.devices} chips: the hosts of {row.name} are one slice"
            draft.account.renamed(argument.paths, str(argument), f"training.{key}", why)


def _mesh_of_one_slice(
    mesh: Mapping[str, Argument], sizes: Mapping[str, Any], row: Accelerator, draft: Draft, problem: str
) -> None:
    """A mesh that counts all chips in its ici_ keys; else none that could be."""
    over_hosts = {name: size for name, size in sizes.items() if name.startswith("dcn_") and size not in (1, -1)}
    try:
        resolve_mesh(sizes, row.devices, 1)
    except MeshError:
        over_hosts = {"": 1}
    for name, argument in mesh.items():
        if over_hosts:
            why = f"{problem}, of {row.hosts} hosts; left out, and fsdp takes all {row.devices} chips"
            draft.account.contradictory(argument.paths, str(argument), why)
        elif sizes[name] == 1 or name.startswith("dcn_"):
            draft.account.dropped(argument.paths, str(argument), "is 1 without being said")
        else:
            draft.training[name] = sizes[name]
            draft.account.kept(argument.paths, str(argument), f"training.{name}")


def _schedule(draft: Draft) -> None:
    key = "learning_rate_schedule_steps"
    schedule, steps = draft.training.get(key, -1), draft.keys.get("steps", 0)
    if schedule != -1 and schedule < steps:
        del draft.training[key]
        why = f"is {schedule}, but steps is {steps}: after it the learning rate is 0; left out, it is as long as steps"
        paths = [path for one in draft.account.findings if one.key == f"training.{key}" for path in one.paths]
        draft.account.findings = [one for one in draft.account.findings if one.key != f"training.{key}"]
        draft.account.contradictory(paths, f"{key}={schedule}", why)
