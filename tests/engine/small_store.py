"""An artifact store as hosts read it, with the real uv and one small wheel in place of MaxText: quick to install."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from infra.artifacts.layout import bundle_key, object_key, sums_text, wheelhouse_key
from infra.artifacts.store import LocalStore
from infra.host_software.bundle import Bundle, BundleContents, collect, put
from infra.host_software.wheels.made import write_made
from infra.paths import UV

WHEEL = "small-1.0-py3-none-any.whl"
LAUNCH = """
import pathlib, small, sys
print("launched", pathlib.Path.cwd().name, small.__file__, *sys.argv[1:], flush=True)
"""


def wheel(path: Path, content: str = "") -> Path:
    """A wheel of the package `small`; without the time of day in it, so that the same content is the same file."""
    info = "small-1.0.dist-info"
    files = {
        "small/__init__.py": content,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"small/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


@dataclass
class SmallStore:
    """`directory` is the store; `work` holds what it is made from."""

    directory: Path
    work: Path
    objects: dict[str, str] = field(default_factory=dict[str, str])
    vouched: dict[str, str] | None = None  # what the next bundle vouches for; None: for all objects

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)

    def add(self, file: Path, name: str = "") -> str:
        """Put a file among the objects of the next wheelhouse; its SHA-256."""
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        target = self.object(name or file.name, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        self.objects[name or file.name] = digest
        return digest

    def object(self, name: str, digest: str = "") -> Path:
        return self.directory / object_key(digest or self.objects[name], name)

    def wheelhouse(self, content: str = "") -> str:
        """A wheelhouse of uv and `small`; its id."""
        self.add(wheel(self.work / WHEEL, content))
        self.add(UV.resolve(), "uv")
        text = sums_text(self.objects)
        wheelhouse = hashlib.sha256(text.encode()).hexdigest()[:16]
        index = self.directory / wheelhouse_key(wheelhouse)
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_text(text)
        return wheelhouse

    def bundle(self, wheelhouse: str, run_spec: str = "", python: str = "") -> Bundle:
        """A bundle whose launch says where it runs. python: the line of sha256sum of an archive that hosts install."""
        training = self.work / "training"
        (training / "locks").mkdir(parents=True, exist_ok=True)
        (training / "__init__.py").touch()
        (training / "launch.py").write_text(LAUNCH)
        (training / ".python-version").write_text("3.12\n")
        write_made(self.vouched if self.vouched is not None else self.objects, training)
        lock = self.work / "pylock.toml"
        lock.write_text('lock-version = "1.0"\n')
        made = collect(training, BundleContents(run_spec, wheelhouse, lock, python=python))
        put(made, LocalStore(self.directory))
        return made

    def archive(self, bundle: Bundle) -> Path:
        return self.directory / bundle_key(bundle.hash)
