"""Patches of upstream packages: training/patches/<package>-<version>/, and what they mean for an unpacked wheel.

Owns how a patch set is read, its content hash, and what each patch is to a wheel: it applies, the code below it has
drifted, or upstream has it already. `git apply` is the engine, away from any repository and anyone's git settings.
Refuses to own the wheel file (infra/host_software/wheels/repack.py) and where wheels come from.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from infra.paths import ROOT
from infra.sentences import SentenceError

PATCHES = ROOT / "training" / "patches"
EXPECTED = "files.sha256"

_NAME = re.compile(r"\d{4}-[a-z0-9-]+\.patch")
_HASHED_FILE = re.compile(r"([0-9a-f]{64})  (.+)")
_CHANGED_FILE = re.compile(r"^--- (\S+).*\n\+\+\+ (\S+)", re.MULTILINE)


class PatchError(SentenceError, ValueError):
    """A patch set or what it meets cannot be used; the message names the patch, the file and what to do."""


class PatchOutcome(enum.Enum):
    APPLIES = "applies"
    DRIFTED = "drifted"
    LANDED = "landed upstream"


@dataclass(frozen=True)
class Patch:
    """A unified diff with paths below a/ and b/. `changes` are the files it expects, `writes` those it leaves."""

    name: str
    text: bytes
    changes: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(sorted({*self.changes, *self.writes}))


@dataclass(frozen=True)
class PatchSet:
    """The patches of one version of a package, in the order in which they are applied.

    `expected` has the SHA-256 of each file that they change, as it is in the package's own wheel, sorted by path.
    """

    package: str  # normalized
    version: str
    patches: tuple[Patch, ...]
    expected: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that a patch reads, changes or makes, relative to the wheel's root."""
        return tuple(sorted({path for patch in self.patches for path in patch.files}))


@dataclass(frozen=True)
class PatchState:
    """What a patch is to a wheel; `drifted` are the files whose code it does not find."""

    patch: Patch
    state: PatchOutcome
    drifted: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({', '.join(self.drifted)})" if self.drifted else ""
        return f"{self.patch.name}: {self.state.value}{where}"


def load_all(root: Path = PATCHES) -> tuple[PatchSet, ...]:
    """Every patch set below `root`, by package and then from the oldest version. Raises PatchError."""
    sets = [_load(directory) for directory in root.iterdir() if directory.is_dir()] if root.is_dir() else []
    return tuple(sorted(sets, key=lambda patch_set: (patch_set.package, Version(patch_set.version))))


def newest(package: str, version: str, sets: Iterable[PatchSet]) -> PatchSet:
    """The patch set of this version, else the newest of the package. Raises PatchError where there is none."""
    known = tuple(sets)
    own = [patch_set for patch_set in known if patch_set.package == canonicalize_name(package)]
    if not own:
        names = ", ".join(sorted({patch_set.package for patch_set in known})) or "no package"
        raise PatchError(f"training/patches has nothing for {package}; it has patches of {names}")
    same = [patch_set for patch_set in own if Version(patch_set.version) == Version(version)]
    return same[0] if same else max(own, key=lambda patch_set: Version(patch_set.version))


def content_hash(patch_set: PatchSet) -> str:
    """Eight hex digits of what the patches say and expect; the first is a letter.

    PEP 440 reads a local version of digits alone as a number and drops its leading zeros.
    """
    digest = hashlib.sha256()
    for part in (patch_set.package, patch_set.version):
        digest.update(part.encode() + b"\0")
    for patch in patch_set.patches:
        digest.update(patch.name.encode() + b"\0" + hashlib.sha256(patch.text).digest())
    for path, sha256 in patch_set.expected.items():
        digest.update(path.encode() + b"\0" + sha256.encode())
    return re.findall(r"[a-f][0-9a-f]{7}", digest.hexdigest())[0]


def state_of(patch_set: PatchSet, directory: Path) -> list[PatchState]:
    """The state of each patch on top of those before it. The unpacked wheel is not changed."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for file in patch_set.files:
            if (directory / file).is_file():
                (scratch / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(directory / file, scratch / file)
        landed = set(_take_back_landed(patch_set, scratch))
        return [_state(patch, scratch, landed=patch in landed) for patch in patch_set.patches]


def apply(patch_set: PatchSet, directory: Path) -> None:
    """Change the unpacked wheel. Raises PatchError where a file is not as the patches expect, before any change."""
    for path, expected in patch_set.expected.items():
        file = directory / path
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        if sha256 != expected:
            name = next(patch.name for patch in patch_set.patches if path in patch.changes)
            what = f"is another file than {name} expects" if sha256 else f"is missing, and {name} expects it"
            raise PatchError(
                f"{path} {what} (SHA-256 {sha256[:12] or '-'}, expected {expected[:12]}): the wheel is not "
                f"{patch_set.package} {patch_set.version} as published; see training/patches/README.md"
            )
    for patch in patch_set.patches:
        done = _git_apply(patch, directory)
        if done.returncode:
            files = ", ".join(_drifted(patch, directory))
            raise PatchError(
                f"{patch.name} of {patch_set.package} {patch_set.version} does not apply to {files}: "
                f"{done.stderr.decode().strip()}; see training/patches/README.md"
            )


def _load(directory: Path) -> PatchSet:
    package, _, version = directory.name.rpartition("-")
    where = f"training/patches/{directory.name}"
    if not package or not _is_version(version):
        raise PatchError(f"{where} is not named <package>-<version>; rename the directory, or remove it")
    paths = sorted(path for path in directory.iterdir() if path.name != EXPECTED)
    if stray := [path.name for path in paths if not (_NAME.fullmatch(path.name) and path.is_file())]:
        raise PatchError(f"{where} has {stray[0]}, which is no patch named NNNN-why.patch; rename or remove it")
    patches = tuple(map(_patch, paths))
    expected = _expected(directory / EXPECTED)
    new_files = {path for patch in patches for path in set(patch.writes) - set(patch.changes)}
    changed_files = {path for patch in patches for path in patch.changes} - new_files
    if differ := ", ".join(sorted(changed_files ^ expected.keys())):
        raise PatchError(
            f"{where}/{EXPECTED} does not list what the patches change ({differ}); see training/patches/README.md"
        )
    return PatchSet(canonicalize_name(package), version, patches, expected)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        where = f"training/patches/{path.parent.name}/{path.name}"
        raise PatchError(f"{where} is not UTF-8 text; save it as UTF-8, or remove it") from None


def _patch(path: Path) -> Patch:
    text = _text(path)
    pairs = _CHANGED_FILE.findall(text)
    if not pairs:
        raise PatchError(f"{path.name} is not a unified diff: it has no ---/+++ lines")
    changes = sorted({before.removeprefix("a/") for before, _ in pairs if before != "/dev/null"})
    writes = sorted({after.removeprefix("b/") for _, after in pairs if after != "/dev/null"})
    return Patch(path.name, text.encode(), tuple(changes), tuple(writes))


def _expected(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise PatchError(f"{path.parent.name} has no {EXPECTED}; see training/patches/README.md")
    files: dict[str, str] = {}
    for line in _text(path).splitlines():
        match = _HASHED_FILE.fullmatch(line)
        if not match:
            raise PatchError(f"{path.parent.name}/{EXPECTED} has the line {line!r}; expected a line of sha256sum")
        files[match[2]] = match[1]
    return dict(sorted(files.items()))


def _take_back_landed(patch_set: PatchSet, scratch: Path) -> Iterator[Patch]:
    """Undo, from the last, the patches that upstream has, so that the first of two on the same lines is seen too."""
    for patch in reversed(patch_set.patches):
        applies = not _git_apply(patch, scratch, "--check").returncode
        if not applies and not _git_apply(patch, scratch, "--reverse").returncode:
            yield patch


def _state(patch: Patch, scratch: Path, *, landed: bool) -> PatchState:
    if not _git_apply(patch, scratch).returncode:
        return PatchState(patch, PatchOutcome.LANDED if landed else PatchOutcome.APPLIES)
    return PatchState(patch, PatchOutcome.DRIFTED, tuple(_drifted(patch, scratch)))


def _drifted(patch: Patch, directory: Path) -> Iterator[str]:
    for path in patch.files:
        if _git_apply(patch, directory, "--check", f"--include={path}").returncode:
            yield path


def _git_apply(patch: Patch, directory: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """`git apply` in `directory`; either the whole patch is applied or nothing.

    Inside a work tree git would report success and change nothing, since paths are then relative to the repository, and
    hooks export GIT_DIR. The ceiling and an environment without git's variables keep it from finding a repository.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    apart = {
        "GIT_CEILING_DIRECTORIES": str(directory.resolve().parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",
    }
    return subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *options, "-"],
        cwd=directory,
        env=environment | apart,
        input=patch.text,
        capture_output=True,
        check=False,
    )
