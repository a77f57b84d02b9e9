"""What a host says of itself: `status.json` in its directory. A leaf: standard library only; infra reads it.

Owns the fields, the phases and that a reader never sees half a file. Refuses to own who is alive: a host that was
killed leaves its last word, so a reader compares it with the process. Steps are counts of completed steps, times are
seconds since the epoch, losses are nats per token.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from training.exit_codes import ExitCode

FILE_NAME = "status.json"


class Phase(StrEnum):
    BOOTSTRAPPING = "bootstrapping"  # bootstrap.sh makes the environment
    STARTING = "starting"  # checks, the other hosts, imports
    COMPILING = "compiling"  # all hosts are up; no step of this start is done yet
    TRAINING = "training"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        return self in (Phase.FINISHED, Phase.INTERRUPTED, Phase.FAILED)


@dataclass(frozen=True)
class HostStatus:
    """The last word of a host. `resumed_from` is the steps that a checkpoint already held when this start began."""

    phase: Phase
    started: float
    updated: float
    step: int = 0
    steps: int = 0
    loss: float | None = None
    heldout_loss: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None
    first_step_at: float | None = None
    resumed_from: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    still_since: float | None = None  # of a training in which nothing has ended for half of the time that it may take
    saved: int | None = None  # steps in the newest checkpoint
    at: str | None = None  # what the training is at, in a few words
    cause: str | None = None  # of its end: training/endings.py
    bad: dict[str, Any] | None = None  # by which its numbers went bad: training/loss_judge.py
    tflops_per_s: float | None = None  # in step_s: the model's, a device, by MaxText's formula (causal attention: half)
    step_s: float | None = None  # usual of the run's newest steps: training/step_times.py

    def ended(self, code: ExitCode, reason: str, cause: str | None = None) -> HostStatus:
        """The status of a start that ends now."""
        phase = {ExitCode.FINISHED: Phase.FINISHED, ExitCode.INTERRUPTED: Phase.INTERRUPTED}.get(code, Phase.FAILED)
        word = dataclasses.replace(self, exit_code=int(code), reason=reason, cause=cause)
        return dataclasses.replace(word, phase=phase, updated=time.time(), eta_s=None, still_since=None)


def write_status(directory: Path, status: HostStatus) -> None:
    """Replace the host's status. Safe against a reader, and against two writers of one host (parent and child)."""
    text, file = json.dumps(dataclasses.asdict(status)) + "\n", directory / FILE_NAME
    partial = directory / f"{FILE_NAME}.{os.getpid()}"
    try:
        partial.write_text(text)
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not file.exists():
            raise
        _overwrite(file, text.encode())


def _overwrite(file: Path, text: bytes) -> None:
    """On a full disk there is room where the last one is. At its length, so that its end is never that of another."""
    with file.open("r+b", buffering=0) as there:
        there.write(text.rstrip().ljust(file.stat().st_size - 1) + b"\n")


def read_status(directory: Path) -> HostStatus | None:
    """The host's last word, or None where it has not spoken yet. What a later release says besides is left out."""
    try:
        return of(json.loads((directory / FILE_NAME).read_text()))
    except FileNotFoundError:
        return None


def of(values: Mapping[str, Any]) -> HostStatus:
    """From the JSON of one. Raises KeyError, TypeError or ValueError where it is none."""
    known: dict[str, Any] = {
        field.name: values[field.name] for field in dataclasses.fields(HostStatus) if field.name in values
    }
    known["phase"] = Phase(known["phase"])
    return HostStatus(**known)
