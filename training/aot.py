"""`python -m training.aot REQUEST RESULT`: compile MaxText's train step for TPUs or GPUs that are not here.

Owns the compile by MaxText's own ahead-of-time path, with MaxText's arguments from REQUEST, and RESULT: what the
compiled program needs and does, or the error as it was said. Refuses to judge either: infra/preview/fit/compiler.py
writes the one and reads the other. Phases go to standard output, one word a line, for who waits.

For GPUs, MaxText's path wants one; here XLA's compiler is given the description of a card instead. cuDNN is not asked
for, since a program is compiled without it. That kernels are not tried changes little: docs/fit.md has the comparison
with a real card.

A program of its own process: it ends with its parent, and what it says on standard error is the compiler's and
MaxText's.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from training.collectives import collectives
from training.maxtext_config import command_line

_PR_SET_PDEATHSIG = 1
_GIB = 2**30
_ERROR_CHARACTERS = 20_000  # an out-of-memory error lists the largest buffers
_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SIZE = r"([0-9]+(?:\.[0-9]+)?)\s*([KMGTP]?)"
_SAID = re.compile(rf"\(?{_SIZE}B?\)? exceed(?:s|ed)? available HBM \(?{_SIZE}", re.IGNORECASE)
_USED_OF = re.compile(rf"Used {_SIZE} of {_SIZE} hbm", re.IGNORECASE)


def main(request_path: Path, result_path: Path) -> int:
    """Exit code 0 where RESULT says something, also an error of the compiler's."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    request: dict[str, Any] = json.loads(request_path.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        try:
            result = _compile(request, scratch)
        except Exception as error:  # noqa: BLE001  what a compiler may raise is not listed; all of it is the answer
            result = {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]}
        except SystemExit as error:  # MaxText's way to refuse its settings
            result = {"error": f"SystemExit: {error}"}
    partial = result_path.with_suffix(".partial")
    partial.write_text(json.dumps(result))
    partial.replace(result_path)
    return 0


def _compile(request: dict[str, Any], scratch: str) -> dict[str, Any]:
    gpu: dict[str, Any] | None = request.get("gpu")
    _phase("importing")
    import jax  # here and below: what does not import is an answer too, and takes long enough to be a phase
    from flax.core.spmd import logical_axis_rules

    from training import maxtext_imports

    with maxtext_imports.quick():
        from maxtext.configs import pyconfig
        from maxtext.trainers.pre_train import train, train_compile
        from maxtext.utils import accelerator_to_spec_map, maxtext_utils, sharding

    if gpu:
        slices = accelerator_to_spec_map.UserFacingNameToSystemCharacteristics
        devices = gpu["hosts"] * gpu["devices_per_host"]
        slices[request["topology"]] = accelerator_to_spec_map.SystemCharacteristics(
            "gpu", None, None, None, devices, None
        )
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # as MaxText's trainer does
    _phase("tracing")
    base = str(Path(pyconfig.__file__).with_name("base.yml"))
    config: Any = pyconfig.initialize(["", base, *command_line(_arguments(request, scratch))])
    mesh = _mesh_of_gpus(config, gpu) if gpu else train_compile.get_topology_mesh(config)
    available = gpu["hbm_gib"] * _GIB if gpu else _available_bytes(mesh.devices.flat[0])
    arguments, keywords, state, _, model = train_compile.get_shaped_inputs(mesh, config)
    params, state = sharding.maybe_update_params_sharding_with_opt(config, state)
    state = sharding.build_zero1_input_state_mesh_shardings(config, state, params)
    step, in_shardings, out_shardings, static, donated = maxtext_utils.get_functional_train_with_signature(
        train.train_step, sharding.get_input_data_sharding(config, mesh), state, model, config, params
    )
    _phase("compiling")
    began = time.monotonic()
    common = {"hbm_gib": available / _GIB if available else None, "tflops_per_device": _tflops(config)}
    try:
        compiled: Any = train_compile.jit_and_compile(
            step, arguments, keywords, mesh, in_shardings, out_shardings, static, donated, config,
            logical_axis_rules(config.logical_axis_rules),
        )  # fmt: skip
    except jax.errors.JaxRuntimeError as error:
        said = needed_and_available(str(error))
        needed = {"peak_gib": said[0] / _GIB, "hbm_gib": said[1] / _GIB} if said else {}
        needed |= {"argument_gib": _state_bytes(arguments[0], state) / _GIB}
        return {**common, **needed, "error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]}
    took = time.monotonic() - began
    _phase("reading")
    memory = compiled.memory_analysis()
    return {
        **common,
        "compile_s": round(took, 1),
        "peak_gib": memory.peak_memory_in_bytes / _GIB,
        "argument_gib": memory.argument_size_in_bytes / _GIB,
        "temp_gib": memory.temp_size_in_bytes / _GIB,
        "collectives": _collectives(compiled.as_text(), mesh, gpu),
    }


def _arguments(request: dict[str, Any], scratch: str) -> dict[str, Any]:
    """What MaxText's ahead-of-time path wants on top; nothing of it changes the program."""
    return request["arguments"] | {
        "compile_topology": request["topology"],
        "compile_topology_num_slices": request["slices"],
        "base_output_directory": scratch,
        "jax_cache_dir": f"{scratch}/jax",  # empty: a compile is a compile; unset, libtpu complains
        "run_name": "fit",
        "log_config": False,
        "enable_checkpointing": False,
        "dataset_type": "synthetic",
    }


def _state_bytes(state: Any, shardings: Any) -> int:
    """Of weights and optimizer on one device."""
    import jax

    leaves, placed = jax.tree.leaves(state), jax.tree.leaves(shardings)
    return sum(
        math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf, sharding in zip(leaves, placed, strict=False)
    )


def _tflops(config: Any) -> float:
    """Of the model, per device and step, by MaxText's own formula; recomputation is not in it."""
    from maxtext.utils import maxtext_utils

    per_batch: float = maxtext_utils.calculate_tflops_training_per_device(config, log=False)[0]
    return per_batch * int(config.gradient_accumulation_steps)


def _available_bytes(device: Any) -> float | None:
    """HBM that the compiler lets a program have, in the words of its own refusal of one that wants too much."""
    import jax
    import jax.numpy as jnp

    sharding = jax.sharding.SingleDeviceSharding(device)
    huge = jax.ShapeDtypeStruct((2**38,), jnp.float32, sharding=sharding)
    try:
        jax.jit(lambda x: x + 1, out_shardings=sharding).lower(huge).compile()
    except jax.errors.JaxRuntimeError as error:
        said = needed_and_available(str(error))
        return said[1] if said else None
    return None


def needed_and_available(text: str) -> tuple[float, float] | None:
    """Bytes of HBM that a program wants and may have by an error of the TPU compiler; None where that says neither."""
    found = _SAID.search(text) or _USED_OF.search(text)
    if not found:
        return None
    return float(found[1]) * _UNIT[found[2].upper()], float(found[3]) * _UNIT[found[4].upper()]


def _mesh_of_gpus(config: Any, gpu: dict[str, Any]) -> Any:
    """The mesh as MaxText makes it on hosts: they are one slice, as training/trainer.py tells JAX."""
    import jax
    from jax._src.cudnn import fused_attention_stablehlo
    from jax.experimental import topologies
    from maxtext.utils import maxtext_utils

    major, minor, patch = map(int, gpu["cudnn"].split("."))  # that hosts have; here the library is not installed
    fused_attention_stablehlo.check_cudnn_version = lambda: major * 10_000 + minor * 100 + patch
    grid = f"{gpu['hosts']}x{gpu['devices_per_host']}x1"
    described = topologies.get_topology_desc("", platform="cuda", topology=grid, target_config=gpu["card"])
    jax.config.update("jax_remove_size_one_mesh_axis_from_type", config.remove_size_one_mesh_axis_from_type)
    devices = maxtext_utils.create_device_mesh(config, described.devices)
    return jax.sharding.Mesh(devices, config.mesh_axes)


def _collectives(program: str, mesh: Any, gpu: dict[str, Any] | None) -> list[dict[str, Any]]:
    shape = {str(name): int(size) for name, size in mesh.shape.items()}
    slices = [int(getattr(device, "slice_index", None) or 0) for device in mesh.devices.flat]
    hosts = [device.id // gpu["devices_per_host"] for device in mesh.devices.flat] if gpu else []
    return [
        {"network": one.network, "axis": one.axis, "operation": one.operation, "gib": one.size / _GIB}
        for one in collectives(program, shape, slices, hosts)
    ]


def _phase(word: str) -> None:
    os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, f"{word}\n".encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
