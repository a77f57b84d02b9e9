"""What the emulated cloud has for stacks of target tpu-vm before anything is deployed: their buckets and wheelhouses.

Nothing boots in an emulated cloud, so a wheelhouse's name is all that is ever asked for: the wheels are not built.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infra.artifacts.layout import wheelhouse_key
from infra.stack_file.settings import SettingsError, any_from_file, stack_names
from infra.targets.tpu_vm.plan import artifacts, plan
from infra.targets.tpu_vm.settings import TpuVmSettings


def stacks_here() -> list[TpuVmSettings]:
    """Of this clone; without those that cannot be used, which say so themselves when they are."""
    found: list[TpuVmSettings] = []
    for name in stack_names():
        try:
            settings = any_from_file(name)
        except SettingsError:
            continue
        if isinstance(settings, TpuVmSettings):
            found.append(settings)
    return found


def fill(root: Path, stacks: Iterable[TpuVmSettings]) -> tuple[str, ...]:
    """Write the buckets of stacks below `root`, as infra/emulators/object_store.py serves them; returns their names."""
    buckets = dict[str, None]()
    for settings in stacks:
        bucket = artifacts(settings).removeprefix("gs://")
        listing = root / bucket / wheelhouse_key(plan(settings).software.wheelhouse.id)
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.touch()
        buckets[bucket] = None
    return tuple(buckets)
