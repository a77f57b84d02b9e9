"""Buckets and objects of the emulated Cloud Storage: directories, and files in them, as the JSON API describes them.

Owns their resources, generations, checksums and pages, and preconditions. Refuses to own calls (object_store.py), how
content arrives (object_uploads.py) and who may do what (call_permissions.py). Raises ObjectStoreError.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import google_crc32c

from infra.emulators.store_errors import ObjectStoreError


class StoredObjects:
    """Below `root`. url: of the server, which stands in resources."""

    def __init__(self, root: Path, page_size: int) -> None:
        self.root = root
        self.page_size = page_size
        self.url = ""
        self.lock = threading.RLock()
        self._metadata: dict[tuple[str, str], tuple[dict[str, str], int]] = {}
        self._sums: dict[tuple[str, int, int], tuple[str, str]] = {}

    # --- buckets ---

    def has_bucket(self, name: str) -> bool:
        return name not in ("", ".", "..") and (self.root / name).is_dir()

    def make_bucket(self, name: str, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """properties: of the bucket, as a caller gives them, of which its place is kept."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", name):
            raise ObjectStoreError(400, f"Invalid bucket name: '{name}'")
        try:
            (self.root / name).mkdir()
        except FileExistsError:
            message = "Your previous request to create the named bucket succeeded and you already own it."
            raise ObjectStoreError(409, message) from None
        said = properties or {}
        if place := {key: said[key] for key in ("location", "customPlacementConfig") if said.get(key)}:
            self._place_of(name).write_text(json.dumps(place))
        return self.bucket(name)

    def bucket(self, name: str) -> dict[str, Any]:
        """A bucket whose maker named no location is in US, as at Google."""
        self.file(name, "any")
        place = self._place_of(name)
        kept: dict[str, Any] = json.loads(place.read_text()) if place.is_file() else {}
        location = str(kept.pop("location", "US")).upper()
        kind = "region" if "-" in location else "dual-region" if kept or location[-1].isdigit() else "multi-region"
        own = {"kind": "storage#bucket", "id": name, "name": name, "location": location, "locationType": kind}
        return own | {"storageClass": "STANDARD"} | kept

    def _place_of(self, name: str) -> Path:
        """Beside the bucket, whose files are its objects."""
        return self.root / f".place-of-{name}.json"

    def delete_bucket(self, name: str) -> None:
        with self.lock:
            base = self.file(name, "any").parent
            if any(path.is_file() for path in base.rglob("*")):
                raise ObjectStoreError(409, "The bucket you tried to delete is not empty.")
            shutil.rmtree(base)
            self._place_of(name).unlink(missing_ok=True)

    # --- objects ---

    def file(self, bucket: str, name: str) -> Path:
        if not self.has_bucket(bucket):
            raise ObjectStoreError(404, "The specified bucket does not exist.")
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise ObjectStoreError(400, f"Invalid object name for this emulator: {name}")
        return self.root / bucket / name

    def resource(self, bucket: str, name: str) -> dict[str, Any]:
        path = self.file(bucket, name)
        if not path.is_file():
            raise ObjectStoreError(404, f"No such object: {bucket}/{name}")
        stat = path.stat()
        known = _version(path, stat)
        if known not in self._sums:
            content = path.read_bytes()
            self._sums[known] = (_crc32c(content), _md5(content))
        metadata, metageneration = self._metadata.get((bucket, name), ({}, 1))
        updated = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        own = f"{self.url}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        return {
            "kind": "storage#object",
            "id": f"{bucket}/{name}/{stat.st_ino}",
            "selfLink": own,
            "mediaLink": own.replace("/storage/v1/", "/download/storage/v1/") + "?alt=media",
            "name": name,
            "bucket": bucket,
            "generation": str(stat.st_ino),  # survives a renewal of the time; another upload is another file
            "metageneration": str(metageneration),
            "contentType": "application/octet-stream",
            "storageClass": "STANDARD",
            "size": str(stat.st_size),
            "crc32c": self._sums[known][0],
            "md5Hash": self._sums[known][1],
            "metadata": metadata,
            "timeCreated": updated,
            "updated": updated,
        }

    def create(
        self, bucket: str, name: str, content: bytes, query: dict[str, str], properties: dict[str, Any]
    ) -> dict[str, Any]:
        own_crc32c, own_md5 = _crc32c(content), _md5(content)  # before the lock: other uploads go on meanwhile
        with self.lock:
            path = self.file(bucket, name)
            self.check_generation(path, query)
            if (crc := properties.get("crc32c", own_crc32c)) != own_crc32c:
                message = f'Provided CRC32C "{crc}" doesn\'t match calculated CRC32C "{own_crc32c}".'
                raise ObjectStoreError(400, message)
            if (md5 := properties.get("md5Hash", own_md5)) != own_md5:
                raise ObjectStoreError(400, f'Provided MD5 hash "{md5}" doesn\'t match calculated "{own_md5}".')
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.root / f".{uuid.uuid4().hex}"
            partial.write_bytes(content)
            partial.replace(path)
            self._sums[_version(path, path.stat())] = (own_crc32c, own_md5)
            self._metadata[bucket, name] = (dict(properties.get("metadata") or {}), 1)
            return self.resource(bucket, name)

    def check_generation(self, path: Path, query: dict[str, str]) -> None:
        wanted = query.get("ifGenerationMatch")
        if wanted is not None and wanted != (str(path.stat().st_ino) if path.is_file() else "0"):
            raise ObjectStoreError(412, "At least one of the pre-conditions you specified did not hold.")

    def patch(self, bucket: str, name: str, query: dict[str, str], properties: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            self.resource(bucket, name)
            path = self.file(bucket, name)
            self.check_generation(path, query)
            metadata, metageneration = self._metadata.get((bucket, name), ({}, 1))
            self._metadata[bucket, name] = (metadata | (properties.get("metadata") or {}), metageneration + 1)
            os.utime(path)
            return self.resource(bucket, name)

    def copy(self, bucket: str, name: str, to_bucket: str, to_name: str) -> dict[str, Any]:
        """Copies an object; the answer is that of a `rewrite` which needed one call."""
        with self.lock:
            size = self.resource(bucket, name)["size"]
            resource = self.create(to_bucket, to_name, self.file(bucket, name).read_bytes(), {}, {})
        done = {"totalBytesRewritten": size, "objectSize": size, "done": True}
        return done | {"kind": "storage#rewriteResponse", "resource": resource}

    def move(self, bucket: str, name: str, to_name: str) -> dict[str, Any]:
        """Renames an object, in one step for whoever looks."""
        with self.lock:
            self.resource(bucket, name)
            metadata, _ = self._metadata.get((bucket, name), ({}, 1))
            content = self.file(bucket, name).read_bytes()
            resource = self.create(bucket, to_name, content, {}, {"metadata": metadata})
            self.delete(bucket, name, {})
            return resource

    def delete(self, bucket: str, name: str, query: dict[str, str]) -> None:
        with self.lock:
            self.resource(bucket, name)
            self.check_generation(self.file(bucket, name), query)
            self.file(bucket, name).unlink()
            self._metadata.pop((bucket, name), None)

    def listing(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        """One page of a bucket's objects. The token of the next page is the last name of this one."""
        base = self.file(bucket, "any").parent
        with self.lock:
            names = sorted(path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file())
            try:
                after = base64.urlsafe_b64decode(query.get("pageToken", "")).decode()
            except ValueError:
                raise ObjectStoreError(400, f"Invalid page token: {query['pageToken']}") from None
            prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
            first, end = query.get("startOffset", ""), query.get("endOffset")
            rest = [name for name in names if name.startswith(prefix) and name > after]
            rest = [name for name in rest if first <= name and (end is None or name < end)]
            size = min(self.page_size, int(query.get("maxResults", self.page_size)))
            deeper = [name for name in rest[:size] if delimiter and delimiter in name.removeprefix(prefix)]
            items = [self.resource(bucket, name) for name in rest[:size] if name not in deeper]
            folders = {prefix + name.removeprefix(prefix).partition(delimiter)[0] + delimiter for name in deeper}
            page: dict[str, Any] = {"kind": "storage#objects", "items": items, "prefixes": sorted(folders)}
            if len(rest) > size:
                page["nextPageToken"] = base64.urlsafe_b64encode(rest[size - 1].encode()).decode()
            return page


def _version(path: Path, stat: os.stat_result) -> tuple[str, int, int]:
    """Of a file: what is written into it later has another one."""
    return (str(path), stat.st_mtime_ns, stat.st_size)


def _crc32c(content: bytes) -> str:
    checksum: Any = google_crc32c  # it has no types
    return _base64(checksum.value(content).to_bytes(4, "big"))


def _md5(content: bytes) -> str:
    return _base64(hashlib.md5(content, usedforsecurity=False).digest())


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
