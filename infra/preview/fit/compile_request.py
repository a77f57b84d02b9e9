"""What a compiler is asked: MaxText's arguments, the slice, and the environment that compiles.

Owns which of a run spec's fields a compiled train step depends on, and the `key` that equal requests share: a spot
stack and its on-demand twin make the same request. Refuses to own the answer (verdict.py).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from infra.host_software.derive import compile_environment
from infra.preview.fit import gpu_target
from infra.preview.fit.gpu_target import GpuTarget
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import Workload
from training.maxtext_config import HostFiles, maxtext_arguments
from training.run_spec import MaxTextValue, RunSpec

_FORM = 1  # raise it when training/aot.py asks the same question differently

# How long a run is, where it writes and what it says: nothing of it is in the train step. The step holds the learning
# rate's schedule, as numbers that change no size.
_NOT_COMPILED = frozenset(
    {
        "steps", "run_name", "base_output_directory", "metrics_file", "jax_cache_dir", "log_config",
        "checkpoint_period", "enable_checkpointing", "enable_autocheckpoint", "async_checkpointing",
        "eval_interval", "eval_steps", "eval_start_step", "generate_padding_batch_eval",
        "learning_rate_schedule_steps", "log_period", "enable_tensorboard", "max_num_checkpoints_to_keep",
        "skip_jax_distributed_system", "dataset_type", "grain_worker_count", "grain_worker_count_eval",
        "load_parameters_path", "load_full_state_path",
    }
)  # fmt: skip


@dataclass(frozen=True)
class CompileRequest:
    """`topology` is the slice as MaxText names it; `environment` the wheelhouse (without a Python) that compiles."""

    topology: str
    slices: int
    environment: str
    arguments: dict[str, MaxTextValue]
    gpu: GpuTarget | None = None  # of a slice of GPUs, in whose words `topology` is Slipway's own

    @cached_property
    def key(self) -> str:
        """16 hex digits."""
        asked = {name: value for name, value in asdict(self).items() if value is not None}
        text = json.dumps([_FORM, asked], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def model(self) -> str:
        return str(self.arguments.get("model_name", "a model of the stack's own"))

    @property
    def remat_policy(self) -> str:
        return str(self.arguments.get("remat_policy", "full"))  # MaxText's default

    @property
    def size(self) -> str:
        return self.topology + (f" x {self.slices}" if self.slices > 1 else "")

    def unknown(self, reason: str) -> FitVerdict:
        """No answer, and why."""
        return FitVerdict(self.key, self.topology, self.slices, self.model, None, reason)


def compile_request_of(workload: Workload, spec: RunSpec) -> CompileRequest:
    """Raises SettingsError where the hosts' environment cannot be told, as for an overlay that is not there."""
    every = maxtext_arguments(spec, HostFiles("", ""), None)
    arguments = {key: value for key, value in sorted(every.items()) if key not in _NOT_COMPILED}
    environment = compile_environment(workload, spec.platform).id
    gpu = None
    if spec.platform == "gpu":
        gpu = gpu_target.of(workload.row, workload.network_of_gpus, workload.channel, workload.compiler_flags)
    return CompileRequest(workload.row.name, spec.slices, environment, arguments, gpu)
