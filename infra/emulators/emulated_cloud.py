"""What the emulated cloud has for stacks that train in it before anything is deployed: their buckets and wheelhouses.

Where hosts are pretended a wheelhouse's name is all that is ever asked for, so its wheels are not built. Where they
boot its files are those of this clone's own store, if it is there; else `up` builds it and pushes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from infra.artifacts.layout import objects_of, wheelhouse_key
from infra.emulators.tpu_hosts.view import SharedDirectory
from infra.host_software.derive import wheelhouse
from infra.paths import ARTIFACTS
from infra.stack_file.cloud_training import CloudTrainingSettings


def fill(root: Path, stacks: Iterable[CloudTrainingSettings]) -> tuple[str, ...]:
    """Write the buckets of stacks below `root`, as infra/emulators/object_store.py serves them; returns their names."""
    buckets = dict[str, None]()
    for settings in stacks:
        places = [settings.places.artifacts, settings.places.runs]
        if settings.sources:
            places.append(settings.places.data)
        artifacts, *_ = names = [place.removeprefix("gs://") for place in places if place.startswith("gs://")]
        identifier = wheelhouse(settings, settings.row.platform).id
        if settings.row.emulated:
            _link(identifier, root / artifacts)
        else:
            listing = root / artifacts / wheelhouse_key(identifier)
            listing.parent.mkdir(parents=True, exist_ok=True)
            listing.touch()
        buckets |= dict.fromkeys(name.partition("/")[0] for name in names)
    return tuple(buckets)


def shared_directories(stacks: Iterable[CloudTrainingSettings]) -> list[SharedDirectory]:
    """Places of stacks whose hosts boot that are directories of this machine: such hosts have them too."""
    places = [settings.places for settings in stacks if settings.row.emulated]
    artifacts = dict.fromkeys(each.artifacts_on_hosts for each in places)
    runs = dict.fromkeys(each.runs for each in places)
    every = [*((place, False) for place in artifacts), *((place, True) for place in runs)]
    return [SharedDirectory(Path(place), writable) for place, writable in every if not place.startswith("gs://")]


def _link(identifier: str, store: Path) -> None:
    """The wheelhouse of this clone, where it is built; its listing last, as whoever pushes one does it."""
    listing = ARTIFACTS / wheelhouse_key(identifier)
    if listing.exists():
        for key in (*objects_of(identifier, listing.read_text()), wheelhouse_key(identifier)):
            target = store / key
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                _same(ARTIFACTS / key, target)


def _same(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
