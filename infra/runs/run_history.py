"""What a run has left beside its checkpoints, in a directory or a bucket: lines of its steps, last words of its hosts.

Reads alone, so a run is told of whose hosts are gone. Owns how these objects are put together. Refuses to own their
names (training/run_objects.py), who wrote them (training/record_keeper.py) and the run's record (records.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, Store
from infra.runs.records import Starters, location
from infra.targets.hosts import HostView
from infra.targets.phases import LOST
from infra.targets.places import in_bucket
from training import host_status, run_objects
from training.host_status import HostStatus, Phase
from training.run_objects import HostStart, StartKeys
from training.run_spec import RunSpec
from training.step_record import newest_steps, read_record, step_record
from training.step_times import NEWEST, speed_of

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
    """Each host as it ended its newest start; one that did so without a word is lost. Raises StoreError.

    Hosts that train into a directory have their last word in another one, which goes with them: of theirs only steps
    are told.
    """
    if not in_bucket(spec.output_directory):
        return [view for index in range(spec.hosts) if (view := _of_record(spec, index))]
    store = open_store(location(spec), _PATIENCE_S)
    try:
        starts = run_objects.newest_starts(store.keys(f"{run_objects.HOSTS}/"))
    except NoBucketError:
        return []  # no foundation, so no run
    starters = Starters(store)
    return [_last_word(store, starters, index, starts[index], spec.hosts_per_slice) for index in sorted(starts)]


def _of_record(spec: RunSpec, index: int) -> HostView | None:
    """None where the run's directory has no step of the host."""
    record = step_record(spec.output_directory, spec.run_name, index)
    if not (lines := newest_steps(record, NEWEST)):
        return None
    is_finished = int(lines[-1]["step"]) + 1 == spec.steps
    view = HostView(
        index=index,
        slice=index // spec.hosts_per_slice,
        name=f"host-{index}",
        phase=Phase.FINISHED if is_finished else LOST,
        reason="" if is_finished else "it is gone, and its record does not say how it ended",
        bundle="",
        age_s=max(0.0, time.time() - record.stat().st_mtime),
    )
    return _as_far_as(view, lines, spec.steps)


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
    """By the newest lines of its steps, where there are any."""
    lines = [json.loads(line) for key in _chunks(store, view.index)[-1:] for line in store.read(key).splitlines()]
    trained = [line for line in lines if "learning/loss" in line]
    if not trained:
        return replace(view, step=start.resumed_from or 0, steps=start.steps)
    return _as_far_as(view, trained, start.steps)


def _as_far_as(view: HostView, trained: Sequence[Mapping[str, Any]], steps: int) -> HostView:
    """By lines of training steps, oldest first."""
    newest, speed = trained[-1], speed_of(trained)
    view = replace(view, step=int(newest["step"]) + 1, steps=steps, loss=newest["learning/loss"])
    return replace(view, step_s=speed.step_s, tflops_per_s=speed.tflops_per_s) if speed else view
