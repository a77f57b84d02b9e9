"""From settings to the run spec: what the hardware row, the data and the run's length imply. Pure.

Owns the derivations; a key that the stack's `training:` sets is never overwritten.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from infra.runs import run_data
from infra.stack_file import gpu_attention
from infra.stack_file.settings import SYNTHETIC, Settings, Workload, typed_training
from infra.stack_file.terms import Terms
from infra.tiers import interruption_s
from training.run_spec import DataSpec, MaxTextValue, RunSpec, default_run_name

# Of a run with text, where the stack does not say. How often it saves its hosts derive: training/save_period.py.
_EVALUATIONS_PER_RUN = 4


# What a platform needs of MaxText where the stack does not say otherwise.
PLATFORM_DEFAULTS: dict[str, dict[str, MaxTextValue]] = {
    "cpu": {
        "attention": "dot_product",
        "dtype": "float32",  # bfloat16 is emulated on a CPU, and slower
        "weight_dtype": "float32",
        "remat_policy": "none",  # memory is not what is short, and recomputing costs a third of a step
        "per_device_batch_size": 1.0,
        "max_target_length": 256,
    },
}


def of_stack(settings: Settings) -> RunSpec:
    """The run spec of a stack. Raises SettingsError for data that is not there."""
    return run_spec(settings, settings.places.runs, run_data.data_spec(settings))


def run_spec(workload: Workload, runs: Path | str, data: DataSpec | None) -> RunSpec:
    """The run spec of a workload; `runs` (a directory or gs://bucket/path) becomes its output directory."""
    row = workload.row
    derived: dict[str, MaxTextValue] = {
        "per_device_batch_size": 12.0,
        "max_target_length": 2048,
        "learning_rate_schedule_steps": workload.steps,
        "eval_interval": max(1, workload.steps // _EVALUATIONS_PER_RUN) if data else -1,
        **_vocabulary(workload, data),
        **PLATFORM_DEFAULTS.get(row.platform, {}),
        **_attention(workload),
    }
    chosen = {key: value for key, value in typed_training(workload).items() if (key, value) != _UNSET_SCHEDULE}
    spec = RunSpec(
        stack=workload.stack,
        run_name=workload.run_name or "",
        platform=row.platform,
        slices=workload.slices,
        hosts_per_slice=row.hosts,
        devices_per_host=row.devices_per_host,
        steps=workload.steps,
        output_directory=str(runs),
        data=data,
        maxtext=derived | chosen,
        loss_spike=workload.loss_spike,
        interruption_s=interruption_s(
            workload.tier if isinstance(workload, Terms) else None, workload.slices, workload.slices * row.hosts
        ),
    )
    return spec if workload.run_name else dataclasses.replace(spec, run_name=default_run_name(spec))


def _vocabulary(workload: Workload, data: DataSpec | None) -> dict[str, MaxTextValue]:
    """The vocabulary of the stack's tokenizer; none for a named model without text, which keeps its own."""
    if data is None and workload.training.get("model_name", "default") != "default":
        return {}
    return {"vocab_size": workload.data_options.vocab_size}


def _attention(workload: Workload) -> dict[str, MaxTextValue]:
    if workload.row.platform != "gpu":
        return {}
    return {"attention": gpu_attention.default(workload.data != SYNTHETIC, workload.training)}


_UNSET_SCHEDULE = ("learning_rate_schedule_steps", -1)
