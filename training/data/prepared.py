"""Whether a prepared directory holds the data that it stands for. A leaf: standard library only.

Owns the comparison of a directory with its manifest and of the manifest with what is expected; both infra and the hosts
read data through it. Does not hash shards before a training: a size says whether one is whole, and a corpus may take an
hour to read.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from pathlib import Path

from training.data.hash_cache import HashCache
from training.data.identity import MANIFEST, DataError, FileEntry, Manifest, content_of, read_manifest


def is_prepared(directory: Path) -> bool:
    """A manifest is written last, so something was prepared here to its end; read_prepared says whether it is this."""
    return (directory / MANIFEST).exists()


def read_prepared(directory: Path, content: str) -> Manifest:
    """The manifest of a directory that holds `content`, whole and with nothing beside it.

    Raises DataError with what differs: other data would train, under this run's name.
    """
    manifest = read_manifest(directory)
    if difference := other_data(manifest, content, str(directory)):
        raise _refusal(difference)
    check_files(directory, manifest)
    return manifest


def other_data(manifest: Manifest, content: str, place: str) -> str | None:
    """What the manifest at `place`, a directory or a URL, says of other text than `content`; None if it is of that."""
    if manifest.content != content:
        return f"{place} holds other data (its manifest says {manifest.content}, expected is {content})"
    described = content_of({source.name: source.sha256 for source in manifest.sources}, manifest.options)
    if described != content:
        return f"{place}/{MANIFEST} says {content}, but the sources and options in it are {described}"
    return None


def check_files(directory: Path, manifest: Manifest) -> None:
    """Raises DataError where the directory lacks shards or the tokenizer of its manifest, or has other ones."""
    for file in manifest.files:
        path = directory / file.name
        if not path.is_file() or path.stat().st_size != file.bytes:
            raise _refusal(f"{path} is missing or has not {file.bytes:,} bytes")
    if manifest.tokenizer:
        path = directory / manifest.tokenizer.file.name
        if hashlib.sha256(path.read_bytes()).hexdigest() != manifest.tokenizer.file.sha256:
            raise _refusal(f"{path} is not the tokenizer of the manifest beside it")
    named = {file.name for file in manifest.files}
    strangers = sorted(path.name for path in directory.glob("*.array_record") if path.name not in named)
    if strangers:
        raise _refusal(f"{directory} holds {strangers[0]}, which its manifest does not name")


def damaged(directory: Path, within_s: float) -> list[str]:
    """Names of the files that are not what the manifest says, of those that can be hashed in that time.

    Also where they cannot be read, or not even the manifest can: what they lie on may have gone away.
    """
    until = time.monotonic() + within_s
    try:
        files = read_manifest(directory).files
    except DataError:
        return [MANIFEST]
    hashed = itertools.takewhile(lambda _: time.monotonic() <= until, files)
    return [file.name for file in hashed if _is_damaged(directory / file.name, file)]


def _is_damaged(path: Path, file: FileEntry) -> bool:
    try:
        return HashCache(None).sha256(path) != file.sha256
    except OSError:
        return True


def _refusal(what: str) -> DataError:
    return DataError(f"{what}: remove the directory, and prepare the data again (`pulumi up` does)")
