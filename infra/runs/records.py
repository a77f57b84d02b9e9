"""Run records: what a run is made of, across restarts. `<output directory>/<run name>/record.json`.

Owns the record's form and who may continue a run. Refuses to own the code's state (infra/runs/code_state.py);
checkpoints and metrics beside the record belong to MaxText.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.paths import ROOT
from infra.runs.code_state import code_state
from training.run_spec import RunSpec, differences, identity

RECORD = "record.json"


def directory(spec: RunSpec) -> Path:
    return Path(spec.output_directory) / spec.run_name


def read(spec: RunSpec) -> dict[str, Any] | None:
    """The record of the run of that name, or None if there is none yet."""
    path = directory(spec) / RECORD
    return json.loads(path.read_text()) if path.exists() else None


def conflict(record: dict[str, Any] | None, spec: RunSpec) -> str | None:
    """One sentence if the run's name belongs to other settings."""
    if record is None:
        return None
    changed = differences(record["identity"], identity(spec))
    if not changed:
        return None
    return (
        f"run '{spec.run_name}' belongs to other settings ({'; '.join(changed)}); "
        f"give another run_name, leave run_name out, or take the settings back"
    )


@dataclass(frozen=True)
class Installed:
    """What the hosts of one start have installed; `overlay` names wheels that replace the lock's."""

    wheelhouse: str
    bundle: str
    overlay: tuple[str, ...] = ()


def write(spec: RunSpec, installed: Installed, root: Path = ROOT) -> dict[str, Any]:
    """Enter this start of the run into its record: commit, uncommitted changes, what hosts install, run spec."""
    record = read(spec) or {
        "id": uuid.uuid4().hex[:12],
        "run_name": spec.run_name,
        "stack": spec.stack,
        "created": _now(),
        "identity": identity(spec),
        "starts": [],
    }
    place = directory(spec)
    place.mkdir(parents=True, exist_ok=True)
    record["starts"].append(
        {
            "at": _now(),
            "steps": spec.steps,
            "code": asdict(code_state(root, place)),
            "operator_lock": hashlib.sha256((root / "uv.lock").read_bytes()).hexdigest(),
            **asdict(installed),
            "run_spec": spec.to_yaml(),
        }
    )
    partial = place / f"{RECORD}.partial"
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.replace(place / RECORD)
    return record


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
