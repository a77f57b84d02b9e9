"""MaxText's arguments for one host, from the run spec. Pure: standard library only.

Owns the fields that are a host's own business and those that every run needs, for the traps named here. Refuses to own
what a stack may choose (infra/runs/run_plan.py) and MaxText's own rules.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from training.data.identity import TOKENIZER
from training.run_spec import MaxTextValue, RunSpec

# Fields that launch sets; a run spec that sets one is refused, because two places would decide.
OWNED = frozenset(
    {
        "hardware", "run_name", "base_output_directory", "steps", "enable_checkpointing", "enable_autocheckpoint",
        "async_checkpointing", "dataset_type", "grain_file_type", "grain_train_files", "grain_eval_files",
        "tokenizer_path", "tokenizer_type", "use_truncation", "num_epoch", "metrics_file", "jax_cache_dir",
        "log_config", "skip_jax_distributed_system", "eval_start_step", "generate_padding_batch_eval", "num_slices",
    }
)  # fmt: skip

# First-fit packing leaves gaps and documents fall unevenly on hosts; measured held-out batches stay below this.
_EVAL_HEADROOM = 1.25


class ConfigError(ValueError):
    """The run spec's MaxText fields cannot be used; the message names the field."""


@dataclass(frozen=True)
class HostFiles:
    """Where this host keeps what MaxText writes for itself."""

    metrics: str  # JSON lines, emptied by MaxText whenever it starts an evaluation
    cache: str  # compiled programs


def maxtext_arguments(spec: RunSpec, files: HostFiles, heldout_tokens: int | None) -> dict[str, MaxTextValue]:
    """Every MaxText field of this host, the run spec's included. `heldout_tokens` is None for synthetic data."""
    if owned := sorted(OWNED & spec.maxtext.keys()):
        raise ConfigError(f"run spec sets maxtext.{', maxtext.'.join(owned)}, which training.launch sets; remove it")
    cpu = spec.platform == "cpu"
    # A data worker process costs a laptop its first 15 seconds and changes no loss.
    defaults: dict[str, MaxTextValue] = {"grain_worker_count": 0, "grain_worker_count_eval": 0} if cpu else {}
    # TPUs say which slice they are of, GPUs what jax.distributed was told; CPU devices say nothing, and MaxText groups
    # them by process if it is told.
    # That grouping is ours: training/patches/maxtext-0.2.5/0001-hybrid-mesh-of-cpu-processes.patch.
    slices: dict[str, MaxTextValue] = {"num_slices": spec.slices} if cpu and spec.slices > 1 else {}
    return {
        "learning_rate_schedule_steps": spec.steps,  # MaxText's default follows `steps`, so a longer run diverges
        **defaults,
        **spec.maxtext,
        **slices,
        "hardware": spec.platform,
        "run_name": spec.run_name,
        "base_output_directory": spec.output_directory,
        "steps": spec.steps,
        "enable_checkpointing": True,
        "enable_autocheckpoint": True,  # without it a SIGTERM stops without a checkpoint, and exits 0
        "async_checkpointing": True,
        "metrics_file": files.metrics,
        "jax_cache_dir": files.cache,
        "log_config": False,
        "skip_jax_distributed_system": False,  # launch has started it, which MaxText sees
        **({"dataset_type": "synthetic"} if heldout_tokens is None else _data(spec)),
        **_evaluation(spec, heldout_tokens),
    }


def command_line(arguments: Mapping[str, MaxTextValue]) -> list[str]:
    """`key=value` as MaxText's OmegaConf reads it: the value is YAML, so JSON quoting keeps every string a string."""
    return [f"{key}={_yaml(value)}" for key, value in sorted(arguments.items())]


def _yaml(value: MaxTextValue) -> str:
    """JSON, but for characters beyond 16 bits, which YAML does not take as two halves."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


def _data(spec: RunSpec) -> dict[str, MaxTextValue]:
    assert spec.data
    directory = glob.escape(spec.data.directory.rstrip("/"))
    return {
        "dataset_type": "grain",  # the only type whose position is in the checkpoint
        "grain_file_type": "arrayrecord",
        "grain_train_files": f"{directory}/train-*.array_record",
        "grain_eval_files": f"{directory}/heldout-*.array_record",
        "tokenizer_path": f"{spec.data.directory.rstrip('/')}/{TOKENIZER}",
        "tokenizer_type": "sentencepiece",
        "use_truncation": False,  # true drops all but the start of each document
        # One spare: launch counted the epochs over all hosts, and the host with the smallest share needs a bit more.
        "num_epoch": spec.data.max_epochs + 1,
    }


def _evaluation(spec: RunSpec, heldout_tokens: int | None) -> dict[str, MaxTextValue]:
    """Evaluate at a phase that includes the last step; hosts whose share ends early go on with empty batches."""
    interval = int(cast(int, spec.maxtext.get("eval_interval", -1)))
    if interval <= 0:
        return {"eval_start_step": 0, "generate_padding_batch_eval": False}
    arguments: dict[str, MaxTextValue] = {
        "eval_start_step": (spec.steps - 1) % interval,
        "generate_padding_batch_eval": True,
    }
    if int(cast(int, spec.maxtext.get("eval_steps", -1))) <= 0 and heldout_tokens is not None:
        arguments["eval_steps"] = _evaluation_steps(spec, heldout_tokens)
    return arguments


def _evaluation_steps(spec: RunSpec, heldout_tokens: int) -> int:
    """Batches that cover the held-out text on every host."""
    own = float(cast(float, spec.maxtext.get("eval_per_device_batch_size") or 0))
    batch = own or float(cast(float, spec.maxtext["per_device_batch_size"]))
    tokens_per_batch = batch * spec.devices * int(cast(int, spec.maxtext["max_target_length"]))
    return math.ceil(heldout_tokens * _EVAL_HEADROOM / tokens_per_batch) + 1
