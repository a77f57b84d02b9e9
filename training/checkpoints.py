"""Which checkpoints a run has, by looking at its directory, and moving spoiled ones out of it. Standard library only.

Owns the one fact that Orbax publishes a step under its bare number: on a file system by renaming a finished directory,
on an object store (no rename) by a last object in it. Refuses to own writing and restoring (MaxText, Orbax), and which
ones are spoiled (training/loss_judge.py). An object store takes paths of `etils.epath`, which read like pathlib ones.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

COMMITTED = "commit_success.txt"  # orbax-checkpoint, on object stores only
_POSITION = re.compile(r"process_\d+-of-(?P<readers>\d+)\.json")  # of a reader of the data: grain


def checkpoint_directory(output_directory: str, run_name: str) -> str:
    """Where MaxText keeps a run's checkpoints; `<this>/<N>` is the state after step N, counted from 0."""
    return f"{output_directory.rstrip('/')}/{run_name}/checkpoints"


def is_remote(directory: str) -> bool:
    return "://" in directory


def run_in_bucket(output_directory: str, run_name: str) -> str:
    """Where a run lies there; empty of one in a directory."""
    return f"{output_directory.rstrip('/')}/{run_name}" if is_remote(output_directory) else ""


def labels(directory: Path, remote: bool = False) -> list[int]:
    """The steps of all complete checkpoints, ascending."""
    try:  # not is_dir, which on an object store that refuses to list says no
        found = [entry for entry in directory.iterdir() if entry.name.isdecimal()]
    except FileNotFoundError:
        return []
    return sorted(int(entry.name) for entry in found if not remote or (entry / COMMITTED).exists())


def completed_steps(directory: Path, remote: bool = False, spoiled: int | None = None) -> int:
    """Steps that the newest complete checkpoint holds, of those before `spoiled`; 0 where there is none."""
    good = [label for label in labels(directory, remote) if spoiled is None or label < spoiled]
    return max(good, default=-1) + 1


def readers(directory: Path, label: int, hosts: int) -> int:
    """How many read the data of the run of which `label` is a complete checkpoint; -1: it has none yet.

    Where no checkpoint says it, as of data that is made up: as many as there are hosts.
    """
    if label < 0:
        return hosts
    try:
        found = [_POSITION.fullmatch(entry.name) for entry in (directory / str(label) / "iter").iterdir()]
    except FileNotFoundError:
        return hosts
    return next((int(position["readers"]) for position in found if position), hosts)


def set_aside(directory: Path, spoiled: int, why: str, remote: bool = False) -> list[int]:
    """Move every checkpoint from `spoiled` on out of the way of the next restore, into set-aside/ beside the others.

    Nothing may be saving meanwhile. What a kill cuts short the next start does: the newest go first. An object store
    moves object by object: the mark of a finished checkpoint goes before the others and is written again after them,
    so that no half is ever taken for a whole. The rest of a half gets a name of its own.
    """
    moved = [label for label in labels(directory) if label >= spoiled]
    aside = directory.parent / "set-aside"
    for label in reversed(moved):
        names = (f"{label}.{number}" if number else str(label) for number in itertools.count())
        free = next(name for name in names if not (aside / name).exists())
        aside.mkdir(parents=True, exist_ok=True)
        (aside / f"{free}.txt").write_text(f"{why}\n")  # on an object store a folder is there once something is in it
        mark = directory / str(label) / COMMITTED
        finished = mark.read_text() if remote and mark.exists() else ""
        if finished:
            mark.unlink()
        (directory / str(label)).rename(aside / free)
        if finished:
            (aside / free / COMMITTED).write_text(finished)
    return moved
