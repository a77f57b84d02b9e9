"""Text that a host reads in a bucket which it has mounted: waits until it can be read, and says that nothing is copied.

Owns the wait, and why there is no mount. Refuses to own the mount: root's service makes it, and makes it again where it
went away (infra/vm_hosts/mount.sh), and leaves the reason beside it where it cannot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from training.bucket_reader import BucketReadError
from training.data.identity import DataError
from training.data.prepared import read_prepared
from training.run_spec import DataSpec

PATIENCE_S = 120.0  # the service fetches its program first, and starts again after a quarter of a minute
_POLL_S = 0.5
FUSE = Path("/dev/fuse")


def wait_for_mount(
    data: DataSpec, watch: Callable[[str], None], patience_s: float = PATIENCE_S, fuse: Path = FUSE
) -> None:
    """Until the text can be read as the manifest has it. `watch` hears once what is waited for.

    Raises DataError on a host that can mount nothing, and BucketReadError where the mount does not come, or has other
    text or other sizes than the manifest: that may be mended in the bucket.
    """
    directory = Path(data.directory)
    until, told = time.monotonic() + patience_s, False
    while (lacking := _lacking(directory.parent)) is not None:
        if lacking and not fuse.exists():
            raise DataError(f"{data.mounted_from} is not mounted: {lacking}")
        if time.monotonic() > until:
            raise BucketReadError(f"{data.mounted_from} is not mounted at {directory.parent}: {lacking or 'no answer'}")
        if not told:
            watch(f"waits for the mount of {data.mounted_from}")
            told = True
        time.sleep(_POLL_S)
    what = _described(data, directory)
    print(f"slipway: the data is read through a mount of {data.mounted_from}: {what}", flush=True)


def _described(data: DataSpec, directory: Path) -> str:
    try:
        manifest = read_prepared(directory, data.content)
    except DataError as error:
        raise BucketReadError(
            f"{data.mounted_from} cannot be trained on as this host has it mounted: {_without_advice(error)}; "
            f"run `pulumi up` again"
        ) from None
    size = sum(file.bytes for file in manifest.files)
    return f"{len(manifest.files)} files of {size / 1e6:,.1f} MB, of which nothing is copied"


def _without_advice(error: DataError) -> str:
    """What differs: the directory is a bucket's, and nobody shall remove it."""
    return str(error).partition(": remove the directory")[0]


def _lacking(mount: Path) -> str | None:
    """Why nothing is mounted there, as far as the service says; None where something is and answers."""
    try:
        os.statvfs(mount)  # asks who serves it, where `stat` may be answered from memory
        if mount.stat().st_dev != mount.parent.stat().st_dev:
            return None
    except OSError as error:  # a directory that is not made yet, or a mount that nobody serves any more
        return _said(mount) or f"{error.strerror}"
    return _said(mount)


def _said(mount: Path) -> str:
    try:
        return mount.with_name(f"{mount.name}.says").read_text().strip()
    except FileNotFoundError:
        return ""
