"""Prepared text from the emulated bucket to a host's disk, against plain parallel `curl` of the same objects, in turn.

`curl` gets as many at once and checks nothing. The emulator is a process of its own and keeps its objects on the disk
that both write to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.bucket_checkpoint import emulated_bucket
from bench.record import Figure, figure
from infra.emulators.metadata_server import MetadataServer
from training.bucket_reader import BucketReader
from training.data.host_copy import AT_ONCE, copy_from_bucket
from training.data.identity import MANIFEST, FileEntry, Manifest, Split, TokenizerEntry, content_of

REPETITIONS = 7
SHARDS, SHARD_BYTES = 64, 8 << 20
_CONTENT = content_of({}, {})
_SOURCE = f"gs://bucket/{_CONTENT}"


def figures(repetitions: int = REPETITIONS) -> list[Figure]:
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(emulated_bucket(root / "buckets"))
        metadata = stack.enter_context(MetadataServer())
        names = _fill(root / "buckets" / "bucket" / _CONTENT)
        reader = BucketReader({"SLIPWAY_STORAGE_ENDPOINT": url, "GCE_METADATA_HOST": metadata.host})

        def copy(directory: Path) -> None:
            copy_from_bucket(_SOURCE, _CONTENT, directory, reader, lambda progress: None)

        def curl(directory: Path) -> None:
            _curl(url, names, directory)

        pairs = [(_seconds(copy, root), _seconds(curl, root)) for _ in range(repetitions + 1)][1:]
    copies, curls = zip(*pairs, strict=True)
    megabytes = SHARDS * SHARD_BYTES // 10**6
    return [
        figure("data_copy_vs_curl", [ours / theirs for ours, theirs in pairs], "x", "<= 1.1"),
        figure("data_copy", copies, "s", "", megabytes=megabytes),
        figure("data_curl", curls, "s", "", megabytes=megabytes),
    ]


def _seconds(fetch: Callable[[Path], None], root: Path) -> float:
    """To a directory that is not there before."""
    directory = root / "disk" / _CONTENT
    start = time.perf_counter()
    fetch(directory)
    seconds = time.perf_counter() - start
    shutil.rmtree(directory)
    return seconds


def _fill(directory: Path) -> list[str]:
    """A prepared text of shards that nobody reads; returns the names of its files."""
    directory.mkdir(parents=True)
    train = tuple(
        _file(directory, f"train-{number:05d}-of-{SHARDS:05d}.array_record", SHARD_BYTES) for number in range(SHARDS)
    )
    heldout = (_file(directory, "heldout-00000-of-00001.array_record", 1 << 20),)
    tokenizer = TokenizerEntry(_file(directory, "tokenizer.model", 1 << 16), 4096, 0, 1, 2, 3)
    splits = (Split(1, 1, 1, 1, 1, 1.0, train), Split(1, 1, 1, 1, 1, 1.0, heldout))
    manifest = Manifest(1, _CONTENT, 0, {}, (), *splits, tokenizer)
    (directory / MANIFEST).write_text(manifest.to_json())
    return [MANIFEST, *(file.name for file in manifest.files)]


def _file(directory: Path, name: str, size: int) -> FileEntry:
    content = os.urandom(size)
    (directory / name).write_bytes(content)
    return FileEntry(name, hashlib.sha256(content).hexdigest(), size)


def _curl(url: str, names: list[str], directory: Path) -> None:
    directory.mkdir(parents=True)
    config = directory.parent / "downloads"
    config.write_text(
        "".join(
            f'url = "{url}/storage/v1/b/bucket/o/{_CONTENT}%2F{name}?alt=media"\noutput = "{directory / name}"\n'
            for name in names
        )
    )
    command = ["curl", "-fsS", "--parallel", "--parallel-max", str(AT_ONCE), "--config", str(config)]
    subprocess.run(command, check=True)
