"""What starts of a training have measured, kept for the next one: `paces.json` in the host's directory.

Owns the file, and for which trainings it counts: those of the same hosts, devices and MaxText arguments, but for how
long and how often. Anything else that lies there, of another release or cut short, is as if nothing did. Refuses to own
what is measured and what follows from it (training/standstill.py, training/save_period.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from training.plan import Plan
from training.standstill import Activity, Measures, Took

FILE_NAME = "paces.json"
VERSION = 1

# What says how long a run is, and how often it does something, not what it does.
_NOT_SHAPE = frozenset(
    {"steps", "learning_rate_schedule_steps", "checkpoint_period", "eval_interval", "eval_start_step", "log_period"}
)


def shape(plan: Plan) -> str:
    """The digest of what decides how long things take, where checkpoints go among it."""
    arguments = {key: value for key, value in plan.maxtext.items() if key not in _NOT_SHAPE}
    whole = [plan.count, plan.devices_per_host, arguments]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def write(directory: Path, shape: str, measures: Measures) -> None:
    """Replace what is kept. Raises OSError."""
    partial = directory / f"{FILE_NAME}.{os.getpid()}"
    partial.write_text(to_text(shape, measures))
    partial.replace(directory / FILE_NAME)


def read(directory: Path, shape: str) -> Measures:
    """What is kept of trainings of that shape."""
    try:
        return parse((directory / FILE_NAME).read_text(), shape)
    except (OSError, UnicodeDecodeError):
        return Measures()


def to_text(shape: str, measures: Measures) -> str:
    took = {activity.name: [took.median, took.longest] for activity, took in measures.took.items()}
    document = {"version": VERSION, "shape": shape, "took": took, "save_cost_s": measures.save_cost_s}
    return json.dumps(document) + "\n"


def parse(text: str, shape: str) -> Measures:
    try:
        document: Any = json.loads(text)
        if (document["version"], document["shape"]) != (VERSION, shape):
            return Measures()
        took = {Activity[name]: Took(*map(_seconds, pair)) for name, pair in document["took"].items()}
        cost = document["save_cost_s"]
        return Measures(took, None if cost is None else _seconds(cost))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return Measures()


def _seconds(value: Any) -> float:
    if not 0 <= float(value) < math.inf:
        raise ValueError(value)
    return float(value)
