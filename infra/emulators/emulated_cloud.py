"""What the emulated cloud has for stacks that train in it before anything is deployed: their buckets and wheelhouses.

Nothing boots in an emulated cloud, so a wheelhouse's name is all that is ever asked for: the wheels are not built.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infra.artifacts.layout import wheelhouse_key
from infra.host_software.derive import wheelhouse
from infra.stack_file.cloud_training import CloudTrainingSettings


def fill(root: Path, stacks: Iterable[CloudTrainingSettings]) -> tuple[str, ...]:
    """Write the buckets of stacks below `root`, as infra/emulators/object_store.py serves them; returns their names."""
    buckets = dict[str, None]()
    for settings in stacks:
        artifacts, runs = (place.removeprefix("gs://") for place in (settings.places.artifacts, settings.places.runs))
        listing = root / artifacts / wheelhouse_key(wheelhouse(settings, settings.row.platform).id)
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.touch()
        buckets |= dict.fromkeys(place.partition("/")[0] for place in (artifacts, runs))
    return tuple(buckets)
