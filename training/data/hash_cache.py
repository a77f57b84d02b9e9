"""SHA-256 of files, remembered between processes so that a large corpus is read once. A leaf: standard library only.

Owns the cache file. Refuses to trust it: an entry counts only for the same path, size and modification time.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, cast

_VERSION = 1
_RACY_S = 2.0  # a file younger than this may change again within its own timestamp, so its hash is not remembered


class HashCache:
    """Without a path it remembers for this process only. A cache file that cannot be read is rebuilt."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = _read(path) if path else {}
        self._changed = False

    def sha256(self, path: Path) -> str:
        """The file's hash in hex. Raises OSError where it cannot be read."""
        stat = path.stat()
        known = self._known.get(str(path))
        if known and known[:2] == (stat.st_size, stat.st_mtime_ns):
            return known[2]
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time() - stat.st_mtime > _RACY_S:
            self._known[str(path)] = (stat.st_size, stat.st_mtime_ns, digest)
            self._changed = True
        return digest

    def save(self) -> None:
        """Write the cache in one step, if it has a path and learned something."""
        if self._path is None or not self._changed:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"version": _VERSION, "files": self._known}), encoding="utf-8")
        temporary.replace(self._path)


def _read(path: Path) -> dict[str, tuple[int, int, str]]:
    try:
        document = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        files = cast(dict[str, Any], document["files"] if document["version"] == _VERSION else {})
        return {str(key): (int(size), int(time_ns), str(digest)) for key, (size, time_ns, digest) in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
