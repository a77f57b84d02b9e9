"""What one host's training process gets from launch, as one file: decided once, read by the process that does it.

Owns the fields and their file. Refuses to own how they are decided (training/launch.py).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.loss_judge import Bounds, bounds


@dataclass(frozen=True)
class Plan:
    """`maxtext` are MaxText's arguments, but for a `checkpoint_period` that is derived.

    `started` is when this start of the host began, in seconds since the epoch.
    """

    index: int
    count: int
    coordinator: str
    devices_per_host: int
    devices: int
    steps: int
    tokens_per_step: int
    checkpoints: str
    metrics_source: str  # MaxText's own file, of this start only
    metrics_record: str  # every step of the run, across starts, on a disk
    heartbeat_s: int
    connect_timeout_s: int
    standstill_s: int  # no step that takes less is a standstill
    interruption_s: int  # one interruption of the run is expected in it; 0: nobody has an idea
    started: float
    data: str  # the directory of prepared data; empty: synthetic
    maxtext: dict[str, Any]
    loss_spike: float | None = None  # a loss of more than so many times the usual one ends the training
    run: str = ""  # where it lies in a bucket; empty: the record lies beside the checkpoints
    bundle: str = ""  # what this host has installed; empty where nobody says it
    data_mounted_from: str = ""  # the place in a bucket that `data` is, where this host has mounted it
    network: str = ""  # by which NCCL shall reach the other hosts (training/gpu_environment.py); empty: nobody says it
    partition: int | None = None  # the slice that this host's GPUs are of, which JAX does not know; None: it does
    sockets_refused: bool = False  # a training whose NCCL takes plain sockets ends

    @property
    def rows_per_step(self) -> int:
        """Of the data, over all hosts."""
        return self.tokens_per_step // int(self.maxtext["max_target_length"])

    @property
    def held_to(self) -> Bounds:
        return bounds(self.maxtext, self.loss_spike)

    def records_of(self, step: int) -> str:
        """The file that names the records of a bad step on this host; empty where no records are read."""
        name = f"bad-step-{step}-host-{self.index}.json"
        directory = f"{self.run}/metrics" if self.run else str(Path(self.metrics_record).parent)
        return f"{directory}/{name}" if self.data else ""

    def save(self, host_directory: Path) -> Path:
        path = host_directory / "plan.json"
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        return path


def load(path: Path) -> Plan:
    return Plan(**json.loads(path.read_text()))
