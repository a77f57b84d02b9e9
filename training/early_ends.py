"""`python -m training.early_ends`: a start that ends before its training does leaves its word in the run's bucket.

So what was wrong with a host that is gone (a port in use, data that do not suffice) is known as of one that has
trained (training/record_keeper.py). Owns when that is written: by a process of its own, which ends within LAST_S, and
once for a host that ends for the same reason at each start. Refuses to own the objects (training/run_objects.py). What
bootstrap.sh ends is not here: it has no client of a bucket yet, and no run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from training import run_objects
from training.checkpoints import run_in_bucket
from training.host_status import HostStatus, of
from training.hosts import Host
from training.record_keeper import LAST_S, as_json, put, why_not
from training.run_objects import HostStart
from training.run_spec import RunSpec

_LEFT = "early-end.json"  # in the host's directory: what was left last


def leave(directory: Path, spec: RunSpec, host: Host, environ: Mapping[str, str], word: HostStatus) -> None:
    """The start and its last word, unless the start before has left the same. environ: of a client of the bucket."""
    if not (run := run_in_bucket(spec.output_directory, spec.run_name)):
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it is over
    left, what = directory / _LEFT, json.dumps([word.phase, word.reason])
    with contextlib.suppress(OSError):  # where the disk is full or broken nobody would know that it was left
        if left.exists() and left.read_text() == what:
            return
        left.write_text(what)
        start = _start(spec, host, environ.get("SLIPWAY_BUNDLE", ""), word.started)
        asked = json.dumps({"run": run, "start": dataclasses.asdict(start), "word": dataclasses.asdict(word)})
        command = [sys.executable, "-m", "training.early_ends"]
        if subprocess.run(command, env=dict(environ), input=asked.encode(), check=False).returncode:
            print(f"slipway: how this start has ended is not kept in {run}", flush=True)
            forget(directory)


def forget(directory: Path) -> None:
    """What comes next is news: a training begins."""
    (directory / _LEFT).unlink(missing_ok=True)


def _start(spec: RunSpec, host: Host, bundle: str, started: float) -> HostStart:
    name = platform.node()
    return HostStart(host.index, host.count, name, bundle, host.coordinator, started, spec.steps, resumed_from=None)


def main() -> None:
    """Exit code 0 once both objects are there."""
    signal.alarm(LAST_S)  # ends this process, whatever its client waits for
    asked = json.load(sys.stdin)
    start, word = HostStart.of(asked["start"]), of(asked["word"])
    try:
        put(asked["run"], run_objects.start_key(start.host, start.started), as_json(start))
        put(asked["run"], run_objects.end_key(start.host, start.started), as_json(word))
    except Exception as error:  # noqa: BLE001  whatever a client raises
        print(f"slipway: {why_not(error)}", flush=True)
        os._exit(1)  # its threads may still wait


if __name__ == "__main__":
    main()
