"""Wheelhouses on this machine: build one with its progress shown, push it, make an environment of it.

Owns what a person sees of it. Refuses to own the steps (infra/host_software/wheels/build.py, infra/artifacts/push.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from infra.artifacts.layout import object_key, objects_of, wheelhouse_key
from infra.artifacts.opening import open_store
from infra.artifacts.push import Pushed, push
from infra.artifacts.store import LocalStore, StoreError
from infra.host_software.bundle import BundleContents, collect, put
from infra.host_software.installation import COMMAND, Installation
from infra.host_software.wheels.build import BuildError, build, files_to_fetch, make
from infra.host_software.wheels.fetch import FetchError, Silent
from infra.host_software.wheels.identity import WheelhouseInputs, wheelhouse_inputs
from infra.host_software.wheels.locks import CHANNELS, PLATFORMS, STABLE, LockError, lock_path
from infra.host_software.wheels.made import write_made
from infra.host_software.wheels.mount_program import MountProgramError, mount_program
from infra.host_software.wheels.patches import PatchError
from infra.host_software.wheels.pythons import host_python
from infra.paths import ARTIFACTS, INSTALLED, TRAINING, UV, WORK
from training.data.hash_cache import HashCache

ERRORS = (LockError, FetchError, BuildError, PatchError, MountProgramError, StoreError, OSError)


def ensure_built(inputs: WheelhouseInputs) -> None:
    """Build a wheelhouse into this machine's store unless it is there. Raises what building raises."""
    if not LocalStore(ARTIFACTS).has(wheelhouse_key(inputs.id)):
        build_here(inputs)


def inputs_of(
    platform: str, channel: str, overlay: Path | None, archive: str | None, mounts: bool = False
) -> WheelhouseInputs:
    """archive: of a Python for hosts that have none; a file, or `pythons.LOCKED`. mounts: with what mounts a bucket."""
    hashes = HashCache(WORK / "cache" / "overlay-stat.json")
    python = host_python(archive, hashes, Path.cwd()) if archive else None
    program = mount_program() if mounts else None
    return wheelhouse_inputs(platform, channel, hashes, overlay, python, mount_program=program)


def build_here(inputs: WheelhouseInputs) -> None:
    console = Console(stderr=True)
    files = len(files_to_fetch(inputs))
    what, megabytes = TextColumn(f"wheelhouse {inputs.id}"), TextColumn("files  {task.fields[megabytes]:.0f} MB")
    columns = (what, BarColumn(), MofNCompleteColumn(), megabytes)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        objects = build(inputs, ARTIFACTS, shutil.which("uv") or str(UV), _Shown(bar, files))
    size = sum(LocalStore(ARTIFACTS).size(object_key(sha256, name)) for name, sha256 in objects.items())
    print(f"wheelhouse {inputs.id}: {len(objects)} files, {size / 1e6:.0f} MB")


def make_here() -> dict[str, str]:
    """Writes training/locks/made.sums, of all locks; SHA-256 by file name. Raises what building raises."""
    inputs = [
        inputs_of(platform, channel, None, None)
        for platform in PLATFORMS
        for channel in CHANNELS
        if lock_path(platform, channel).exists()
    ]
    objects: dict[str, str] = {}
    for each in inputs:
        objects |= make(each, ARTIFACTS, shutil.which("uv") or str(UV), Silent())
    write_made(objects)
    return objects


class _Shown:
    """Progress of a build: files and bytes on a terminal, else a line per file."""

    def __init__(self, bar: Progress, files: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=files, megabytes=0.0)
        self._files, self._names, self._bytes = files, 0, 0
        self._lock = threading.Lock()

    def arrived(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            self._bar.update(self._task, megabytes=self._bytes / 1e6)

    def finished(self, name: str) -> None:
        with self._lock:
            self._names += 1
            self._bar.advance(self._task)
            if not self._bar.console.is_terminal:
                print(f"{self._names} of {self._files} files: {name}", flush=True)


def push_from_here(wheelhouse: str, to: str) -> None:
    source, target = LocalStore(ARTIFACTS), open_store(to)
    if target.uri == source.uri:
        return
    index = wheelhouse_key(wheelhouse)
    keys = objects_of(wheelhouse, source.read(index).decode(errors="replace"))
    console = Console(stderr=True)

    def progress(key: str, done: Pushed) -> None:
        if console.is_terminal:
            console.print(f"{done.uploaded + done.present} of {len(keys) + 1}: {key.rpartition('/')[2]}", end="\r")

    done = push(source, target, keys, last=[index], progress=progress)
    print(
        f"{target.uri}: {done.uploaded} files ({done.uploaded_bytes / 1e6:.0f} MB) uploaded, "
        f"{done.present} were there ({done.present_bytes / 1e6:.0f} MB)"
    )


@dataclass(frozen=True)
class Environment:
    """A Python that has what cpu hosts have, and the directory with the training package."""

    python: str
    sources: str


def environment(wheels: WheelhouseInputs | None = None) -> Environment:
    """For work on this machine: a wheelhouse (by default cpu's), installed as hosts install it.

    Raises what building raises, or EnvironmentError with bootstrap's reason.
    """
    wheels = wheels or inputs_of("cpu", STABLE, None, None)
    ensure_built(wheels)
    lock = lock_path(wheels.platform, wheels.channel)
    bundle = collect(TRAINING, BundleContents("", wheels.id, lock, overlay=wheels.overlay_sums))
    put(bundle, LocalStore(ARTIFACTS))
    installation = Installation(str(ARTIFACTS), bundle.hash, str(INSTALLED))
    installed = subprocess.run(
        COMMAND, env=os.environ | installation.environment_only, stdout=subprocess.PIPE, text=True, check=False
    )
    if installed.returncode:
        raise OSError("the hosts' environment cannot be made; the reason is above")
    return Environment(python=installed.stdout.strip().splitlines()[-1], sources=installation.directory)
