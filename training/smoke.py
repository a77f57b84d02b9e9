"""Proof that every process takes part, before a training is started on trust.

An all-reduce over all devices in which each device contributes its process's index plus one: a process that trains
alone, or a device that is missing, changes the sum. Refuses to own counts and ranks (training/hosts.py).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class SmokeError(RuntimeError):
    """The sum over all devices is not what all processes together make."""


def expected_sum(processes: int, devices_per_process: int) -> int:
    """Sum of (index + 1) over every device of every process."""
    return devices_per_process * processes * (processes + 1) // 2


def all_reduce(processes: int, devices_per_process: int) -> int:
    """Sum over every device of the job. Raises SmokeError naming the expected and the received value."""
    mesh = Mesh(np.array(jax.devices()), ("all",))
    sharded = NamedSharding(mesh, PartitionSpec("all"))
    own = [jax.device_put(np.full((1,), jax.process_index() + 1, np.int32), device) for device in mesh.local_devices]
    values = jax.make_array_from_single_device_arrays((mesh.size,), sharded, own)
    total = int(jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(values))
    expected = expected_sum(processes, devices_per_process)
    if total != expected:
        raise SmokeError(
            f"the sum over all devices is {total}, expected {expected} from {processes} processes with "
            f"{devices_per_process} devices each; a process does not take part, or two have the same index"
        )
    return total
