"""The artifact store that is a bucket, over google-cloud-storage.

Owns how the promises of `Store` are kept on Cloud Storage: an upload appears at one moment and only where the key is
free, checksums are compared here, and whatever Google's client raises becomes one sentence. Refuses to own retries,
credentials and the emulator (STORAGE_EMULATOR_HOST): those are the client's.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from infra.artifacts.bucket_store import RENEW_AFTER, REPLACE_AGAIN, BucketStore
from infra.artifacts.store import (
    PATIENCE_S,
    REPAIR,
    Entry,
    NoBucketError,
    NotPermittedError,
    StoreError,
    disk_errors,
)
from infra.google_login import advised

# These packages ship no types, so their names are Any here.
_crc: Any = importlib.import_module("google_crc32c")
_storage: Any = importlib.import_module("google.cloud.storage")
_storage_errors: Any = importlib.import_module("google.cloud.storage.exceptions")
_storage_retry: Any = importlib.import_module("google.cloud.storage.retry")

CHUNK_BYTES = 16 << 20  # the client keeps a chunk in memory per upload, and its own default is 100 MB
ROLE = "roles/storage.objectUser"  # of those that write, the one that grants nothing
SEEING_ROLE = "roles/storage.legacyBucketReader"  # has storage.buckets.get, and no object
_CLIENT_ERRORS: tuple[type[Exception], ...] = (
    *(api.GoogleAPIError, auth.GoogleAuthError, requests.RequestException),
    *(_storage_errors.DataCorruption, _storage_errors.InvalidResponse),
    ConnectionError,  # the client's own, for a body that ended early
)


class GcsStore(BucketStore):
    """`gs://bucket[/prefix]`."""

    def __init__(self, bucket: str, prefix: str, patience_s: float = PATIENCE_S) -> None:
        super().__init__("gs", bucket, prefix)
        self._retry: Any = _storage_retry.DEFAULT_RETRY.with_timeout(patience_s)
        with self._errors("open"):
            self._client: Any = _storage.Client(project=None)
            self._client._bucket_metadata_cache = None  # else a thread asks for two minutes, for traces nobody reads
            self._bucket: Any = self._client.bucket(bucket)
            self._client._http.hooks["response"].append(_finish_errors)

    def updated(self, key: str) -> datetime:
        return self._get(key).updated

    def read(self, key: str) -> bytes:
        blob = self._get(key)
        with self._errors(f"read {key} of"):
            content: bytes = blob.download_as_bytes(
                raw_download=True, checksum=None, if_generation_match=blob.generation, retry=self._retry
            )
        # the client checks nothing once it has continued a download that was cut
        if len(content) != blob.size or _encode(_crc.value(content)) != blob.crc32c:
            raise StoreError(f"{key} of {self.uri} arrived damaged (checksum mismatch); run it again")
        return content

    def put(self, key: str, file: Path) -> bool:
        with disk_errors(f"read {file}"):
            size, checksum = file.stat().st_size, _crc32c(file)
        if existing := self._find(key):
            self._same(key, existing, file, size, checksum)
            if self._renew(key, existing):
                return False
        blob = self._bucket.blob(self._name(key), chunk_size=CHUNK_BYTES)
        storing = f"store {file} as {key} in"
        with disk_errors(f"read {file}"), self._errors(storing), file.open("rb") as stream:
            try:
                blob.upload_from_file(
                    stream,
                    size=size,
                    content_type="application/octet-stream",
                    if_generation_match=0,
                    checksum="crc32c",
                    retry=self._retry,
                )
            except api.PreconditionFailed:
                blob = None  # someone else was faster, or the answer to our own upload was lost
        if blob is None:
            self._same(key, self._get(key), file, size, checksum)
            return False
        if blob.crc32c != checksum:
            with self._errors(f"delete the damaged {key} of"):
                blob.delete(if_generation_match=blob.generation, retry=self._retry)
            raise StoreError(f"{file} changed while it was stored as {key} in {self.uri}; run it again")
        return True

    def replace(self, key: str, content: bytes) -> None:
        """Against the generation that was just seen: a try that is late overwrites nothing newer."""
        checksum = _encode(_crc.value(content))
        for _ in range(REPLACE_AGAIN):
            there = self._find(key)
            if there is not None and (there.size, there.crc32c) == (len(content), checksum):
                return  # also by a try of ours whose answer was lost
            with self._errors(f"store {key} in"), contextlib.suppress(api.PreconditionFailed):
                self._bucket.blob(self._name(key)).upload_from_string(
                    content,
                    content_type="application/octet-stream",
                    if_generation_match=there.generation if there is not None else 0,
                    checksum="crc32c",
                    retry=self._retry,
                )
                return
        raise StoreError(f"{key} of {self.uri} is written by somebody else at the same time; run it again")

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        with self._errors("list"):
            for blob in self._client.list_blobs(self._bucket, prefix=self._prefix + prefix, retry=self._retry):
                yield Entry(str(blob.name).removeprefix(self._prefix), int(blob.size), blob.updated)
        self._seen_bucket = True

    def delete(self, key: str) -> None:
        with self._errors(f"delete {key} of"):
            try:
                self._bucket.delete_blob(self._name(key), retry=self._retry)
            except api.NotFound:
                self._check_bucket()

    def regions(self) -> tuple[str, ...]:
        """Where the bucket lies: its region, both of a pair that its maker chose, or a larger place as `us`, `nam4`."""
        with self._errors("ask the location of", SEEING_ROLE):
            self._bucket.reload(retry=self._retry)
        return tuple(place.lower() for place in self._bucket.data_locations or [self._bucket.location])

    def _find(self, key: str) -> Any:
        """The object with its properties, or None."""
        with self._errors(f"look for {key} in"):
            blob = self._bucket.get_blob(self._name(key), retry=self._retry)
            if blob is None:
                self._check_bucket()
            else:
                self._seen_bucket = True
        return blob

    def _check_bucket(self) -> None:
        """Without a bucket every object is "not found" too. A listing tells: accounts of hosts may not get buckets."""
        if not self._seen_bucket:
            list(self._client.list_blobs(self._bucket, max_results=1, retry=self._retry))
            self._seen_bucket = True

    def _renew(self, key: str, blob: Any) -> bool:
        """Set the age of an object in use back to zero; False where gc has just deleted it."""
        if datetime.now(UTC) - blob.updated < RENEW_AFTER:
            return True
        with self._errors(f"renew {key} of"):
            blob.metadata = {"slipway-put": datetime.now(UTC).isoformat()}
            try:
                blob.patch(if_generation_match=blob.generation, retry=self._retry)
            except (api.NotFound, api.PreconditionFailed):
                return False
        return True

    def _same(self, key: str, blob: Any, file: Path, size: int, checksum: str) -> None:
        if blob.size != size:
            raise StoreError(f"{key} in {self.uri} has {blob.size} bytes, but {file} has {size}; {REPAIR}")
        if blob.crc32c != checksum:
            raise StoreError(f"{key} in {self.uri} has another checksum than {file}; {REPAIR}")

    @contextlib.contextmanager
    def _errors(self, doing: str, role: str = ROLE) -> Generator[None]:
        """Turns whatever the client raises while `doing` something to this store into one sentence.

        role: has the permissions that it takes.
        """
        try:
            yield
        except _CLIENT_ERRORS as error:
            retried: BaseException | None = getattr(error, "cause", None)  # of a RetryError
            raise self._sentence(doing, retried or error, role) from error

    def _sentence(self, doing: str, error: BaseException, role: str) -> StoreError:
        what = f"cannot {doing} {self.uri}"
        reason = _first_line(error)
        refused_as_damaged = isinstance(error, api.BadRequest) and "crc32c" in reason.lower()
        match error:
            case api.NotFound():
                return NoBucketError(
                    f"{what}: there is no bucket '{self._bucket_name}' that this account can see;"
                    f" fix the name, or create it with its foundation stack"
                )
            case api.Forbidden():
                said = advised(f"{what}: permission denied ({reason})", 403, f"{role} on the bucket")
                return NotPermittedError(said)
            case api.Unauthorized() | auth.DefaultCredentialsError() | auth.RefreshError():
                return StoreError(advised(f"{what}: no valid Google credentials ({reason})", 401))
            case _ if refused_as_damaged or isinstance(error, _storage_errors.DataCorruption):
                return StoreError(f"{what}: it arrived damaged (checksum mismatch); run it again")
            case api.GoogleAPICallError():
                return StoreError(advised(f"{what}: Cloud Storage answered {error.code}: {reason}", error.code))
            case _:
                return StoreError(f"{what}: no connection to Cloud Storage ({reason}); run it again when there is one")


def _finish_errors(response: requests.Response, *args: object, **options: object) -> None:
    """Read the rest of an answer that is an error, which the client does not: else its connection is never reused."""
    del args, options
    if response.status_code >= 400:
        _ = response.content


def _first_line(error: BaseException) -> str:
    # the message alone lacks "404 GET <address>:"
    message = _answered(error) or str(getattr(error, "message", "")) or str(error)
    return (message.strip() or type(error).__name__).splitlines()[0][:300]


def _answered(error: BaseException) -> str:
    """Cloud Storage's own sentence: of an upload, the client's message has the whole answer, JSON in many lines."""
    try:
        return str(cast(Any, error).response.json()["error"]["message"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _crc32c(file: Path) -> str:
    value: int = 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            value = _crc.extend(value, block)
    return _encode(value)


def _encode(value: int) -> str:
    """A checksum as Cloud Storage writes it: base64 of four bytes."""
    return base64.b64encode(value.to_bytes(4, "big")).decode()
