"""The bundle: what hosts get besides wheels, under a hash that a preview knows from the sources alone.

`MANIFEST` in the bundle lists every other file as sha256sum does; the bundle's hash is the first 16 hex digits of the
SHA-256 of that list, so bootstrap.sh checks all of it with sha256sum. Owns which files belong to it and its archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.artifacts.layout import bundle_key
from infra.artifacts.store import Store, StoreError, put_bytes
from infra.host_software.wheels.made import made_sums
from infra.paths import RUN_SPEC

MANIFEST = "MANIFEST"
WHEELHOUSE = "wheelhouse"  # the id of the wheelhouse to install
LOCK = "pylock.toml"
MADE = "made.sums"  # what hosts may install besides what the lock names, as sha256sum checks it
PYTHON = "python.sha256"  # the archive of the Python that its hosts install, as sha256sum checks it
MODEL_DIRECTORY = "model"
_CODE = (".py", ".sh")


@dataclass(frozen=True)
class BundleContents:
    """What one stack puts in beside the training sources; paths are inside the bundle."""

    run_spec: str
    wheelhouse: str
    lock: Path
    model_file: Path | None = None
    python: str = ""  # line of sha256sum; empty where hosts have a Python 3.12
    overlay: str = ""  # lines of sha256sum


@dataclass(frozen=True)
class Bundle:
    """`files` maps paths inside the bundle to bytes, `MANIFEST` not among them."""

    files: Mapping[str, bytes]

    @property
    def manifest(self) -> bytes:
        lines = (f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(self.files.items()))
        return "".join(lines).encode()

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.manifest).hexdigest()[:16]

    def archive(self) -> bytes:
        """A tar of the same bytes on every machine: not compressed, as builds of zlib differ."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path, data in sorted({**self.files, MANIFEST: self.manifest}.items()):
                member = tarfile.TarInfo(path)
                member.size = len(data)
                member.mode = 0o755 if path.endswith(".sh") else 0o644
                tar.addfile(member, io.BytesIO(data))
        return raw.getvalue()


def collect(training: Path, contents: BundleContents) -> Bundle:
    """Read everything that belongs to the bundle; `training` is the directory of the training package."""
    files = {f"training/{path}": (training / path).read_bytes() for path in sources(training)}
    files["training/.python-version"] = (training / ".python-version").read_bytes()
    files[RUN_SPEC] = contents.run_spec.encode()
    files[WHEELHOUSE] = f"{contents.wheelhouse}\n".encode()
    files[LOCK] = contents.lock.read_bytes()
    files[MADE] = f"{made_sums(training)}{contents.overlay}".encode()
    if contents.python:
        files[PYTHON] = contents.python.encode()
    if contents.model_file:
        files[f"{MODEL_DIRECTORY}/{contents.model_file.name}"] = contents.model_file.read_bytes()
    return Bundle(files)


def wheelhouse_of(archive: bytes) -> str:
    """The id of the wheelhouse that a bundle installs, from its archive. Raises StoreError for another file."""
    return _text_in(archive, WHEELHOUSE, "the name of its wheelhouse").strip()


def run_spec_in(archive: bytes) -> str:
    """The run spec of a bundle, from its archive. Raises StoreError for another file."""
    return _text_in(archive, RUN_SPEC, "a run spec")


def _text_in(archive: bytes, path: str, what: str) -> str:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            member = tar.extractfile(path)
            if member is not None:
                return member.read().decode()
    except (tarfile.TarError, KeyError, UnicodeDecodeError):
        pass  # said below
    raise StoreError(f"a bundle in use is no archive with {what}; push it again, then run gc again")


def sources(training: Path) -> list[str]:
    """The training package's code, as sorted paths relative to it. Caches, environments and patches stay behind."""
    paths: list[str] = []
    for directory, children, names in os.walk(training):
        children[:] = sorted(name for name in children if (Path(directory) / name / "__init__.py").is_file())
        relative = Path(directory).relative_to(training)
        paths += [(relative / name).as_posix() for name in names if name.endswith(_CODE)]
    return sorted(paths)


def put(bundle: Bundle, store: Store) -> None:
    """Puts the archive into a store. Raises StoreError where another archive has its key."""
    put_bytes(store, bundle_key(bundle.hash), bundle.archive())
