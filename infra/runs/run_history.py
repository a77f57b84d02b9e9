"""What a run has left beside its checkpoints, in a directory or a bucket: lines of its steps, last words of its hosts.

Reads alone, so a run is told of whose hosts are gone. Owns how these objects are put together. Refuses to own their
names (training/run_objects.py), who wrote them (training/record_keeper.py) and the run's record (records.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, Store
from infra.runs.records import Starters, location
from infra.targets.hosts import HostView
from infra.targets.phases import LOST
from infra.targets.places import in_bucket
from training import host_status, run_objects
from training.host_status import HostStatus
from training.run_objects import HostStart, StartKeys
from training.run_spec import RunSpec
from training.step_record import read_record, step_record

_AT_ONCE = 8  # two weeks of a training are some thousand objects
_PATIENCE_S = 20.0  # of a command that only looks


def steps(spec: RunSpec, index: int) -> Iterator[dict[str, Any]]:
    """What host `index` has recorded of the run, oldest first; a step that was done again comes again, and counts then.

    Raises StoreError.
    """
    if in_bucket(spec.output_directory):
        yield from _of_chunks(open_store(location(spec), _PATIENCE_S), index)
    else:
        yield from read_record(step_record(spec.output_directory, spec.run_name, index))


def last_words(spec: RunSpec) -> list[HostView]:
    """Each host as it ended its newest start in a bucket; one that did so without a word is lost. Raises StoreError."""
    if not in_bucket(spec.output_directory):
        return []  # hosts that train into a directory leave their status in another one
    store = open_store(location(spec), _PATIENCE_S)
    try:
        starts = run_objects.newest_starts(store.keys(f"{run_objects.HOSTS}/"))
    except NoBucketError:
        return []  # no foundation, so no run
    starters = Starters(store)
    return [_last_word(store, starters, index, starts[index], spec.hosts_per_slice) for index in sorted(starts)]


@dataclass(frozen=True)
class RecentPace:
    """Over the newest steps that a host has recorded: seconds each, and TFLOPs of one device, where it knows them."""

    step_s: float
    tflops: float | None


def recent_pace(spec: RunSpec, index: int) -> RecentPace | None:
    """None before two steps are recorded. Raises StoreError."""
    store = open_store(location(spec), _PATIENCE_S)
    lines = [json.loads(line) for key in _chunks(store, index)[-1:] for line in store.read(key).splitlines()]
    # The first step after a start compiles, and the time of one step is when it was handed on: the mean is right.
    steps = [line for line in lines if "learning/loss" in line and "perf/step_time_seconds" in line][1:]
    if not steps:
        return None
    step_s = sum(float(line["perf/step_time_seconds"]) for line in steps) / len(steps)
    return RecentPace(step_s, steps[-1].get("perf/per_device_tflops")) if step_s > 0 else None


def _of_chunks(store: Store, index: int) -> Iterator[dict[str, Any]]:
    keys = _chunks(store, index)
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        for content in readers.map(store.read, keys):
            yield from map(json.loads, content.splitlines())


def _chunks(store: Store, index: int) -> list[str]:
    folder = f"{run_objects.chunks_of(index)}/"
    names = run_objects.chunks_in_order(key.removeprefix(folder) for key in store.keys(folder))
    return [f"{folder}{name}" for name in names]


def _last_word(store: Store, starters: Starters, index: int, keys: StartKeys, hosts_per_slice: int) -> HostView:
    """A start that came to no training knows no step: that is what is recorded."""
    start = HostStart.of(json.loads(store.read(keys.start)))
    status = _status(store.read(keys.end)) if keys.end else None
    spoken = status.updated if status else start.started
    view = HostView(
        index=index,
        slice=index // hosts_per_slice,
        name=start.name,
        phase=status.phase if status else LOST,
        reason=(status.reason or "") if status else "it is gone, and has said nothing of its end",
        bundle=start.bundle,
        age_s=max(0.0, time.time() - spoken),
        started_by=starters.of_host(start.bundle, start.started),
    )
    return view.saying(status) if status and status.step else _as_far_as_recorded(store, view, start)


def _status(text: bytes) -> HostStatus | None:
    try:
        return host_status.of(json.loads(text))
    except (KeyError, TypeError, ValueError):
        return None  # of a later release


def _as_far_as_recorded(store: Store, view: HostView, start: HostStart) -> HostView:
    """By the newest line of its steps, where there is one."""
    lines = [json.loads(line) for key in _chunks(store, view.index)[-1:] for line in store.read(key).splitlines()]
    trained = [line for line in lines if "learning/loss" in line]
    if not trained:
        return replace(view, step=start.resumed_from or 0, steps=start.steps)
    return replace(view, step=int(trained[-1]["step"]) + 1, steps=start.steps, loss=trained[-1]["learning/loss"])
