"""What the emulated cloud has for stacks that train in it before anything is deployed: buckets, roles, wheelhouses.

Where hosts are pretended a wheelhouse's name is all that is ever asked for, so its wheels are not built. Where they
boot its files are those of this clone's own store, if it is there; else `up` builds it and pushes it.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from infra.artifacts.layout import objects_of, wheelhouse_key
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.tpu_hosts.view import SharedDirectory
from infra.host_roles import PROJECT_ROLES, bucket_roles
from infra.host_software.derive import wheelhouse
from infra.paths import ARTIFACTS
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.targets.places import Places, in_bucket


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


def grant(policies: BucketPolicies, stacks: Iterable[CloudTrainingSettings]) -> None:
    """On buckets and projects without a policy, what a foundation grants to the account of these stacks' hosts."""
    projects, members = dict[str, str](), defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    on_projects = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    for settings in stacks:
        member = f"serviceAccount:{settings.service_account or settings.names.account_email}"
        for role in PROJECT_ROLES.values():
            on_projects[settings.project][role].add(member)
        for kind, places in _places_by_kind(settings.places).items():
            for bucket in (place.split("/")[2] for place in places if in_bucket(place)):
                projects.setdefault(bucket, settings.project)
                for role in bucket_roles(kind):
                    members[bucket][role].add(member)
    for bucket, by_role in members.items():
        policies.begin(bucket, projects[bucket], by_role)
    for project, by_role in on_projects.items():
        policies.begin_project(project, by_role)


def _places_by_kind(places: Places) -> dict[str, tuple[str, ...]]:
    return {
        "artifacts": (places.artifacts, places.artifacts_on_hosts),
        "checkpoints": (places.runs,),
        "data": (places.data,),
    }


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
