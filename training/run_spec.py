"""The run spec: what every host of a stack runs, as one YAML file. A leaf: standard library and yaml only.

Owns the contract between infra/ (which writes it) and training/launch.py (which obeys it): its fields, its identity and
its parser. Refuses to own how values are chosen (infra/stack_file/settings.py) and who a host is (training/hosts.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

VERSION = 1

type MaxTextValue = str | int | float | bool | list[str] | None


class RunSpecError(ValueError):
    """The run spec cannot be read; the message names the key."""


@dataclass(frozen=True)
class DataSpec:
    """Prepared text, made by training/data.

    `directory` holds `manifest.json`, `train-*.array_record`, `heldout-*.array_record` and the tokenizer. Where it is
    a place in a bucket (gs://, s3://), each host copies it to its disk first (training/data/host_copy.py).
    `content` is the hash of sources and options that names it on every machine. `max_epochs` is how often a run may
    see each token; a run that needs more is refused. `mounted_from`: the place in a bucket that a host sees as
    `directory`, because it mounts it (training/data/mounted.py); else empty.
    """

    directory: str
    content: str
    max_epochs: int
    mounted_from: str = ""


@dataclass(frozen=True)
class RunSpec:
    """What the hosts run. Counts are per slice or host as named; `steps` is the last step count, not an increment.

    `output_directory` holds `<run_name>/` with checkpoints, metrics and the run record. `maxtext` holds every MaxText
    field that is not a host's own business: the stack's overrides plus what settings derived from the hardware row.
    `loss_spike`: a loss of more than so many times the usual one ends the training; run specs of before have none.
    `interruption_s`: seconds in which the run is expected to be interrupted once; 0 where nobody has an idea.
    """

    stack: str
    run_name: str
    platform: str
    slices: int
    hosts_per_slice: int
    devices_per_host: int
    steps: int
    output_directory: str
    data: DataSpec | None
    maxtext: Mapping[str, MaxTextValue]
    loss_spike: float | None = None
    interruption_s: int = 0

    @property
    def hosts(self) -> int:
        return self.slices * self.hosts_per_slice

    @property
    def devices(self) -> int:
        return self.hosts * self.devices_per_host

    @property
    def rows_per_step(self) -> int:
        """Of the global batch: sequences of `max_target_length` tokens."""
        return _rows(self.maxtext, self.devices)

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch, padding counted."""
        return self.rows_per_step * int(cast(int, self.maxtext["max_target_length"]))

    def to_yaml(self) -> str:
        document = {"version": VERSION, **dataclasses.asdict(self), "maxtext": dict(sorted(self.maxtext.items()))}
        if self.loss_spike is None:
            del document["loss_spike"]  # as before there were bounds
        return yaml.safe_dump(document, sort_keys=False, width=120)


# What may change while a run stays the same run: its length, what is derived from its length, and how often it saves,
# evaluates or logs. Everything else names another run.
_NOT_IDENTITY = frozenset(
    {
        "steps", "learning_rate_schedule_steps", "checkpoint_period", "eval_interval", "eval_start_step", "eval_steps",
        "log_period", "enable_tensorboard", "max_num_checkpoints_to_keep",
    }
)  # fmt: skip


def _rows(maxtext: Mapping[str, Any], devices: int) -> int:
    """Of a step, over all devices."""
    return round(float(maxtext["per_device_batch_size"]) * devices) * int(
        maxtext.get("gradient_accumulation_steps") or 1
    )


_OF_HOSTS = re.compile(
    r"slices|hosts_per_slice|devices_per_host"
    r"|training\.(per_device_batch_size|gradient_accumulation_steps|(ici|dcn)_[a-z_]+_parallelism)"
)


def identity(spec: RunSpec) -> dict[str, Any]:
    """The settings that make two runs the same run, flat, for hashing and for showing differences.

    Directories are left out (a moved clone continues its run), `steps` and what follows from it too.
    """
    flat: dict[str, Any] = {
        "platform": spec.platform,
        "slices": spec.slices,
        "hosts_per_slice": spec.hosts_per_slice,
        "devices_per_host": spec.devices_per_host,
        "data": spec.data.content if spec.data else "synthetic",
    }
    return flat | {f"training.{key}": value for key, value in spec.maxtext.items() if key not in _NOT_IDENTITY}


def on_any_hosts(of_a_run: Mapping[str, Any]) -> dict[str, Any]:
    """An identity with the rows of a step in the place of the hosts that train them, and of their mesh."""
    hosts = {key: value for key, value in of_a_run.items() if _OF_HOSTS.fullmatch(key)}
    devices = hosts["slices"] * hosts["hosts_per_slice"] * hosts["devices_per_host"]
    rows = _rows({key.removeprefix("training."): value for key, value in hosts.items()}, devices)
    return {key: value for key, value in of_a_run.items() if key not in hosts} | {"rows_per_step": rows}


def default_run_name(spec: RunSpec) -> str:
    """The stack plus a short hash of the run's identity."""
    canonical = json.dumps(identity(spec), sort_keys=True)
    return f"{spec.stack}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per identity key that differs, `key: old -> new`, sorted."""
    absent = "(not set)"
    return [
        f"{key}: {old.get(key, absent)} -> {new.get(key, absent)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, absent) != new.get(key, absent)
    ]


def epochs_sentence(needed: int, train_tokens: int) -> str:
    """How often a run of `needed` tokens reads each training token."""
    return f"{needed:,} of {train_tokens:,} training tokens: {needed / max(train_tokens, 1):.2f} epochs"


def too_few_tokens(needed: int, train_tokens: int, max_epochs: int) -> str | None:
    """One sentence if a run of `needed` tokens would read its data more often than `max_epochs` allows."""
    if needed <= train_tokens * max_epochs:
        return None
    return (
        f"the run needs {epochs_sentence(needed, train_tokens)}, and max_epochs is {max_epochs}; "
        f"raise data_options.max_epochs, lower steps or give more data"
    )


def parse(text: str) -> RunSpec:
    """Read a run spec. Raises RunSpecError naming the key that is missing, unknown or of the wrong type."""
    document = yaml.safe_load(text)
    if not isinstance(document, dict):
        raise RunSpecError("run spec is not a mapping")
    fields = cast(dict[str, Any], document)
    version = fields.pop("version", None)
    if version != VERSION:
        raise RunSpecError(f"run spec has version {version!r}, this code reads {VERSION}; run `pulumi up` again")
    data = fields.get("data")
    if data is not None:
        fields["data"] = DataSpec(**_checked(cast(dict[str, Any], data), DataSpec, "data."))
    spec = RunSpec(**_checked(fields, RunSpec, ""))
    for key in ("per_device_batch_size", "max_target_length"):  # tokens_per_step stands on them
        if key not in spec.maxtext:
            raise RunSpecError(f"run spec key 'maxtext.{key}' is missing")
    return spec


_SCALARS: dict[str, type] = {"str": str, "int": int}


def _checked(fields: dict[str, Any], kind: type, prefix: str) -> dict[str, Any]:
    known = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    optional = {field.name for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
    for key in fields:
        if key not in known:
            raise RunSpecError(f"run spec key '{prefix}{key}' is unknown; allowed: {', '.join(known)}")
    for key, annotation in known.items():
        if key not in fields:
            if key in optional:  # a run spec of a release that did not have it
                continue
            raise RunSpecError(f"run spec key '{prefix}{key}' is missing")
        expected = _SCALARS.get(annotation)
        if expected and (not isinstance(fields[key], expected) or isinstance(fields[key], bool)):
            raise RunSpecError(f"run spec key '{prefix}{key}' is {fields[key]!r}, expected {expected.__name__}")
    return fields
