"""Prepared text in a bucket, from which hosts copy it: below its content, shards first and the manifest last.

Owns its layout there, sending it from this machine, whether what lies there is whole, and what is said of the copies.
Refuses to own preparing (training/data) and the copy to a host's disk (training/data/host_copy.py).
"""

from __future__ import annotations

import math
from pathlib import Path

from infra.artifacts.opening import open_store
from infra.artifacts.push import Progress, Pushed, push
from infra.artifacts.store import LocalStore, NoObjectError, Store, put_bytes
from infra.targets.places import below
from training.data.identity import MANIFEST, DataError, Manifest, parse_manifest, read_manifest
from training.data.prepared import check_files, damaged, other_data

# To a host's disk. Assumed, not measured: no cloud host was ever used, and the boot disk of a VM is its slowest part.
ASSUMED_BYTES_PER_S = 100e6


def copies(size: int | None, hosts: int, url: str) -> str:
    """Who copies text of so many bytes, and how long that takes; None: nobody knows yet how many."""
    who = f"each of {hosts} hosts copies" if hosts > 1 else "its host copies"
    what = f"{who} it from {url} to its disk"
    if size is None:
        return what
    seconds = max(1, round(size / ASSUMED_BYTES_PER_S))
    return f"{what}, in about {seconds:,} s at an assumed {ASSUMED_BYTES_PER_S / 1e6:.0f} MB/s"


def mounts(hosts: int, url: str) -> str:
    """Who reads the text where it lies."""
    who = f"each of {hosts} hosts mounts" if hosts > 1 else "its host mounts"
    return f"{who} {url}, read-only, and reads it as it trains; nothing is copied"


def prepared_bytes(manifest: Manifest) -> int:
    return sum(file.bytes for file in manifest.files)


def manifest_in(store: Store) -> Manifest | None:
    """None where nothing was ever pushed there to its end. Raises DataError for a manifest that cannot be read."""
    try:
        text = store.read(MANIFEST).decode(errors="replace")
    except NoObjectError:
        return None
    return parse_manifest(text, f"{store.uri}/{MANIFEST}")


def renew(store: Store) -> None:
    """Set the age of text that somebody is about to read back to zero, so that no `slipway gc` removes it meanwhile."""
    put_bytes(store, MANIFEST, store.read(MANIFEST))


def missing_in(store: Store, manifest: Manifest) -> str | None:
    """The first file of the manifest that is lost there or has another size, in a sentence; None where none is."""
    sizes = {entry.key: entry.size for entry in store.entries()}
    for file in manifest.files:
        size = sizes.get(file.name)
        if size is None:
            return f"{store.uri}/{file.name} is lost, of which byte 0 to {file.bytes:,} are expected"
        if size != file.bytes:
            return f"{store.uri}/{file.name} has {size:,} bytes, its manifest says {file.bytes:,}"
    return None


def stored_manifest(url: str) -> Manifest:
    """Of text that lies whole at `url`, whose last part is its content. Raises DataError where it does not."""
    store = open_store(url)
    manifest = manifest_in(store)
    if manifest is None:
        raise DataError(
            f"{url} holds no prepared text (no {MANIFEST}); push it with: slipway data push DIRECTORY "
            f"{url.rpartition('/')[0]}"
        )
    if problem := other_data(manifest, url.rpartition("/")[2], url) or missing_in(store, manifest):
        raise DataError(f"{problem}; delete {url} and push it again")
    return manifest


def push_prepared(directory: Path, to: str, progress: Progress) -> tuple[str, Pushed]:
    """Send what is absent below `to`, once every shard was found to be what the manifest says; returns its URL.

    Raises DataError for a directory that is not whole, and StoreError. Safe to interrupt and to run again.
    """
    manifest = read_manifest(directory)
    check_files(directory, manifest)
    if names := damaged(directory, math.inf):
        raise DataError(
            f"{', '.join(names)} in {directory} is damaged: remove the directory, and prepare the data again"
        )
    url = below(to, manifest.content)
    names = [file.name for file in manifest.files]
    return url, push(LocalStore(directory), open_store(url), names, last=[MANIFEST], progress=progress)
