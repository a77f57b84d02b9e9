"""Which checkpoints a run has, by looking at its directory. A leaf: standard library only.

Owns the one fact that Orbax publishes a step under its bare number: on a file system by renaming a finished directory,
on an object store (no rename) by a last object in it. Refuses to own writing and restoring (MaxText, Orbax).
"""

from __future__ import annotations

from pathlib import Path

COMMITTED = "commit_success.txt"  # orbax-checkpoint, on object stores only


def checkpoint_directory(output_directory: str, run_name: str) -> str:
    """Where MaxText keeps a run's checkpoints; `<this>/<N>` is the state after step N, counted from 0."""
    return f"{output_directory.rstrip('/')}/{run_name}/checkpoints"


def is_remote(directory: str) -> bool:
    return "://" in directory


def completed_steps(directory: Path, remote: bool = False) -> int:
    """Steps that the newest complete checkpoint holds; 0 where there is none.

    An object store takes a path of `etils.epath`, which reads like a pathlib one, and `remote`.
    """
    if not directory.is_dir():
        return 0
    found = [entry for entry in directory.iterdir() if entry.name.isdecimal()]
    steps = [int(entry.name) for entry in found if not remote or (entry / COMMITTED).exists()]
    return max(steps, default=-1) + 1
