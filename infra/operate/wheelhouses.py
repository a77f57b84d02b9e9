"""Wheelhouses on this machine: build one with its progress shown, push it, make an environment of it.

Owns what a person sees of it. Refuses to own the steps (infra/wheels/build.py, infra/artifacts/push.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from infra.artifacts.bundle import BundleContents, collect, put
from infra.artifacts.layout import object_key, parse_sums, wheelhouse_key
from infra.artifacts.push import Pushed, push
from infra.artifacts.store import LocalStore, StoreError, open_store
from infra.local.bootstrap import COMMAND, Installation
from infra.paths import ARTIFACTS, INSTALLED, ROOT, TRAINING, WORK
from infra.wheels.build import BuildError, Wheelhouse, build, files_to_fetch
from infra.wheels.fetch import FetchError
from infra.wheels.identity import FETCHED_PYTHON, WheelhouseInputs, wheelhouse_inputs
from infra.wheels.locks import STABLE, LockError, lock_path
from infra.wheels.patches import PatchError
from training.data.hash_cache import HashCache

ERRORS = (LockError, FetchError, BuildError, PatchError, StoreError, OSError)


def ensure_built(inputs: WheelhouseInputs) -> None:
    """Build a wheelhouse into this machine's store unless it is there. Raises what building raises."""
    if not LocalStore(ARTIFACTS).has(wheelhouse_key(inputs.id)):
        build_here(inputs)


def inputs_of(platform: str, channel: str, overlay: Path | None, archive: Path | str | None) -> WheelhouseInputs:
    hashes = HashCache(WORK / "cache" / "overlay-stat.json")
    python = Path(archive) if isinstance(archive, str) and archive != FETCHED_PYTHON else archive
    inputs = wheelhouse_inputs(platform, channel, hashes, overlay, python)
    hashes.save()
    return inputs


def built_here() -> list[str]:
    """Ids of the wheelhouses in this machine's store."""
    return sorted(path.name for path in (ARTIFACTS / "wheelhouses").glob("*"))


def build_here(inputs: WheelhouseInputs) -> Wheelhouse:
    """With a bar on a terminal, else a line now and then."""
    uv = shutil.which("uv") or str(ROOT / ".venv" / "bin" / "uv")
    console = Console(stderr=True)
    total = len(files_to_fetch(inputs))
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(f"wheelhouse {inputs.id}", total=None)
        seen: set[str] = set()

        def progress(name: str, size: int) -> None:
            bar.update(task, advance=size, description=name[:40])
            if name not in seen:
                seen.add(name)
                if not console.is_terminal:
                    print(f"{len(seen)} of {total} files: {name}", flush=True)

        made = build(inputs, ARTIFACTS, uv, progress)
    print(f"wheelhouse {made.id}: {len(made.objects)} files, {made.size / 1e6:.0f} MB")
    return made


def push_from_here(wheelhouse: str, to: str) -> None:
    source, target = LocalStore(ARTIFACTS), open_store(to)
    if target.uri == source.uri:
        return
    index = wheelhouse_key(wheelhouse)
    keys = [object_key(digest, name) for name, digest in parse_sums(source.read(index).decode()).items()]
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


def environment() -> Environment:
    """For work on this machine without a stack: the cpu wheelhouse, installed as hosts install it.

    Raises what building raises, or EnvironmentError with bootstrap's reason.
    """
    wheels = inputs_of("cpu", STABLE, None, None)
    ensure_built(wheels)
    bundle = collect(TRAINING, BundleContents("", wheels.id, lock_path("cpu", STABLE)))
    put(bundle, LocalStore(ARTIFACTS))
    installation = Installation(str(ARTIFACTS), bundle.hash, str(INSTALLED))
    made = subprocess.run(
        COMMAND, env=os.environ | installation.environment_only, stdout=subprocess.PIPE, text=True, check=False
    )
    if made.returncode:
        raise OSError("the hosts' environment cannot be made; the reason is above")
    return Environment(python=made.stdout.strip().splitlines()[-1], sources=installation.directory)
