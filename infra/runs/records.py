"""Run records: what a run is made of, across restarts; objects that never change, in a directory or a bucket.

<output directory>/<run name>/record.json               whose run it is, and the settings that make it that run
<output directory>/<run name>/starts/<time>.json        what one start ran, and by whom: code, locks, software, run spec
<output directory>/<run name>/uncommitted-<hash>.patch  what the code of a start had beyond its commit

Owns their form and who may continue a run. Refuses to own the code's state (infra/runs/code_state.py); checkpoints and
metrics beside them belong to MaxText. Records of 0.1.0 have their starts in record.json.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import platform
import re
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.artifacts.opening import open_store
from infra.artifacts.store import NoObjectError, Store, StoreError, put_bytes
from infra.paths import ROOT
from infra.runs.code_state import code_state
from infra.targets.places import below
from training.reader_shares import refusal
from training.run_spec import RunSpec, differences, identity, on_any_hosts, parse

RECORD = "record.json"
STARTS = "starts/"
_AT = "%Y-%m-%dT%H:%M:%SZ"
KEY = re.compile(rf"(.+/)?({re.escape(RECORD)}|{STARTS}[^/]+\.json)")  # of a record, and of a start of it


def location(spec: RunSpec) -> str:
    """The run's directory, or its URL in a bucket."""
    return below(spec.output_directory, spec.run_name)


def read(spec: RunSpec) -> dict[str, Any] | None:
    """The record of the run of that name, or None if there is none yet. Raises StoreError."""
    return _read(open_store(location(spec)))


def conflict(record: dict[str, Any] | None, spec: RunSpec) -> str | None:
    """One sentence if the run's name belongs to other settings, or these hosts cannot read its text in its batches."""
    if record is None:
        return None
    began = record["identity"]
    changed = differences(on_any_hosts(began), on_any_hosts(identity(spec)))
    if not changed:
        readers = began["slices"] * began["hosts_per_slice"]
        return refusal(readers, spec.hosts, spec.rows_per_step) if spec.data and readers != spec.hosts else None
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


def enter(spec: RunSpec, installed: Installed, root: Path = ROOT) -> str:
    """Enter this start of the run into its record: commit, uncommitted changes, what hosts install, run spec.

    Returns the run's id. Raises StoreError, also where the run's name belongs to other settings.
    """
    store, now = open_store(location(spec)), time.time()
    at = time.strftime(_AT, time.gmtime(now))
    own = {
        "id": uuid.uuid4().hex[:12],
        "run_name": spec.run_name,
        "stack": spec.stack,
        "created": at,
        "identity": identity(spec),
    }
    record = _read(store) or _first(store, own)
    if refusal := conflict(record, spec):
        raise StoreError(refusal)
    code, patch = code_state(root)
    if code.uncommitted:
        put_bytes(store, code.uncommitted, patch)
    start = {
        "at": at,
        "by": _operator(),
        "steps": spec.steps,
        "code": asdict(code),
        "operator_lock": hashlib.sha256((root / "uv.lock").read_bytes()).hexdigest(),
        **asdict(installed),
        "run_spec": spec.to_yaml(),
    }
    _put(store, f"{STARTS}{at[:-1]}.{now % 1 * 1e6:06.0f}-{uuid.uuid4().hex[:4]}.json", start)
    return str(record["id"])


def newest_spec(runs: Path) -> RunSpec | None:
    """What the newest start of all runs in a directory has run; None where there is none."""
    newest = max(runs.glob(f"*/{STARTS}*.json"), key=lambda start: start.name, default=None)
    return parse(json.loads(newest.read_text())["run_spec"]) if newest else None


class Starters:
    """Who ran each `up` of a run, by its starts, of which each is read once. Raises StoreError.

    Hosts are not told it: it would be in their metadata or their bundle, and so a change for each of several people.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._keys = store, sorted(store.keys(STARTS), reverse=True)
        self._starts = dict[str, dict[str, Any]]()

    def of_host(self, bundle: str, started: float) -> str:
        """Of the newest `up` with the host's bundle before the host began; empty where no record says so."""
        moment = time.strftime(_AT, time.gmtime(started))
        ups = (start for start in map(self._start, self._keys) if start.get("bundle") == bundle)
        return next((str(start.get("by", "")) for start in ups if str(start.get("at", "")) <= moment), "")

    def _start(self, key: str) -> dict[str, Any]:
        if key not in self._starts:
            self._starts[key] = json.loads(self._store.read(key))
        return self._starts[key]


def _operator() -> str:
    """Who runs this, as `user@machine`."""
    try:
        user = getpass.getuser()
    except KeyError:  # no name in this machine's password database
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def _read(store: Store) -> dict[str, Any] | None:
    try:
        return json.loads(store.read(RECORD))
    except NoObjectError:
        return None


def _first(store: Store, own: dict[str, Any]) -> dict[str, Any]:
    """The record as it stands now: ours, or that of another `up` which was faster."""
    try:
        _put(store, RECORD, own)
    except StoreError:
        if (other := _read(store)) is None:
            raise
        return other
    return own


def _put(store: Store, key: str, values: dict[str, Any]) -> None:
    put_bytes(store, key, f"{json.dumps(values, indent=1)}\n".encode())
