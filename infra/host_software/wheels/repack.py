"""A wheel with a patch set in it, under a local version: `0.2.5` becomes `0.2.5+slipway.<hash>`.

Owns the wheel's form. The same wheel and patches give the same bytes on every machine: entries are sorted, times and
permissions fixed, and nothing is compressed, because zlib's output differs between its versions and forks.
Not `wheel`: its WheelFile dates RECORD by the clock, and its `pack` renames to build tags, not to local versions.
Refuses to own what the patches mean (infra/host_software/wheels/patches.py).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import parse_wheel_filename

from infra.host_software.wheels.patches import PatchError, PatchSet, apply, content_hash

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that zip knows
_UNIX = 3
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # they would vouch for another RECORD


@dataclass(frozen=True)
class _Entry:
    content: bytes
    executable: bool = False


def local_version(patch_set: PatchSet) -> str:
    return f"{patch_set.version}+slipway.{content_hash(patch_set)}"


def repack(wheel: Path, patch_set: PatchSet, out: Path) -> Path:
    """Write the patched wheel into the directory `out` and return its path. Raises PatchError on a drifted wheel."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    if (name, str(version)) != (patch_set.package, patch_set.version):
        raise PatchError(f"{wheel.name} is not {patch_set.package} {patch_set.version}, which the patches are for")
    entries = _patched(_read(wheel), patch_set)
    distribution, own, *tags = wheel.name.split("-")
    old, new = f"{distribution}-{own}", f"{distribution}-{local_version(patch_set)}"
    entries = {_renamed(path, old, new): entry for path, entry in entries.items()}
    metadata = f"{new}.dist-info/METADATA"
    entries[metadata] = _Entry(_with_version(entries[metadata].content, local_version(patch_set), wheel.name))
    record = f"{new}.dist-info/RECORD"
    entries[record] = _Entry(_record(entries, record))
    out.mkdir(parents=True, exist_ok=True)
    target = out / "-".join([new, *tags])
    partial = target.with_suffix(".partial")
    _write(partial, entries, f"{new}.dist-info/")
    return partial.replace(target)


def _read(wheel: Path) -> dict[str, _Entry]:
    """The wheel's files, without its RECORD and the signatures of it."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            item.filename: _Entry(archive.read(item), executable=bool(item.external_attr >> 16 & 0o111))
            for item in archive.infolist()
            if not item.is_dir() and not _is_record(item.filename)
        }


def _is_record(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] in ("RECORD", *_SIGNATURES)


def _patched(entries: dict[str, _Entry], patch_set: PatchSet) -> dict[str, _Entry]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for path in entries.keys() & patch_set.files:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(entries[path].content)
        apply(patch_set, directory)
        patched = {path: entry for path, entry in entries.items() if path not in patch_set.files}
        for path in patch_set.files:
            if (directory / path).is_file():
                executable = path in entries and entries[path].executable
                patched[path] = _Entry((directory / path).read_bytes(), executable)
        return patched


def _renamed(path: str, old: str, new: str) -> str:
    is_own = path.startswith((f"{old}.dist-info/", f"{old}.data/"))
    return new + path.removeprefix(old) if is_own else path


def _with_version(metadata: bytes, version: str, wheel: str) -> bytes:
    changed, count = re.subn(rb"\A(.*?^Version: )[^\r\n]+", rb"\g<1>" + version.encode(), metadata, flags=re.M | re.S)
    if count != 1:
        raise PatchError(f"{wheel}: METADATA has no Version line")
    return changed


def _record(entries: dict[str, _Entry], record: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, entry in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(entry.content).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(entry.content)])
    rows.writerow([record, "", ""])
    return text.getvalue().encode()


def _write(path: Path, entries: dict[str, _Entry], metadata: str) -> None:
    """Sorted, with the metadata directory at the end, as the wheel format recommends."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, entry in sorted(entries.items(), key=lambda item: (item[0].startswith(metadata), item[0])):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = _UNIX
            info.external_attr = (0o100755 if entry.executable else 0o100644) << 16
            archive.writestr(info, entry.content)
