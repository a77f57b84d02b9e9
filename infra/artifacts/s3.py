"""The artifact store that is an S3 bucket, over botocore: Amazon's, or another server's that speaks S3.

Owns how the promises of `Store` are kept there: an upload appears at one moment and only where the key is free, its
SHA-256 is checked by the server and kept beside it, and whatever botocore raises becomes one sentence. Refuses to own
retries and credentials (profiles, single sign-on, variables): those are botocore's.

AWS_ENDPOINT_URL_S3 alone names another server: what a profile says of endpoints is not read, since a stack says where
its pods find the bucket, and pods know no profile (infra/targets/kubernetes/s3_rules.py compares the two).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import os
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.artifacts.bucket_store import RENEW_AFTER, REPLACE_AGAIN, BucketStore
from infra.artifacts.store import (
    PATIENCE_S,
    REPAIR,
    Entry,
    NoBucketError,
    NoObjectError,
    NotPermittedError,
    StoreError,
    disk_errors,
    sha256_of,
)
from infra.targets.places import S3_ENDPOINT
from training.s3_objects import ELSEWHERE, OF_CREDENTIALS, expected_region

# These packages ship no types, so their names are Any here.
_session: Any = importlib.import_module("botocore.session")
_config: Any = importlib.import_module("botocore.config")
_errors: Any = importlib.import_module("botocore.exceptions")

_SUM = "sha256"  # of an object's own metadata, which every server gives back
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_ABSENT = ("NoSuchKey", "NotFound", "404")


class S3Store(BucketStore):
    """`s3://bucket[/prefix]`."""

    def __init__(self, bucket: str, prefix: str, patience_s: float = PATIENCE_S) -> None:
        super().__init__("s3", bucket, prefix)
        self._endpoint = os.environ.get(S3_ENDPOINT) or None
        self._region = ""
        with self._sentences("open", ""):
            session = _session.get_session()
            self._region = os.environ.get("AWS_REGION") or session.get_config_variable("region") or "us-east-1"
            self._client: Any = session.create_client(
                "s3",
                region_name=self._region,
                endpoint_url=self._endpoint,
                config=_config.Config(
                    retries={"mode": "standard", "total_max_attempts": max(2, min(8, int(patience_s / 10)))},
                    connect_timeout=min(10.0, patience_s / 4),
                    read_timeout=max(5.0, patience_s / 2),
                    s3={"addressing_style": "path"} if self._endpoint else None,
                    ignore_configured_endpoint_urls=True,
                    # Others than Amazon's do not know every checksum; what is put brings its own.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )

    def updated(self, key: str) -> datetime:
        return _seconds(self._get(key)["LastModified"])

    def read(self, key: str) -> bytes:
        with self._sentences(f"read {key} of", "s3:GetObject"):
            try:
                answer = self._client.get_object(Bucket=self._bucket_name, Key=self._name(key))
                content: bytes = answer["Body"].read()
            except _errors.ClientError as error:
                if _code(error) not in _ABSENT:
                    raise
                self._check_bucket()
                raise NoObjectError(f"there is no {key} in {self.uri}") from None
        known = answer["Metadata"].get(_SUM)
        if len(content) != answer["ContentLength"] or known not in (None, hashlib.sha256(content).hexdigest()):
            raise StoreError(f"{key} of {self.uri} arrived damaged (checksum mismatch); run it again")
        return content

    def put(self, key: str, file: Path) -> bool:
        with disk_errors(f"read {file}"):
            size, digest = file.stat().st_size, sha256_of(file)
        if existing := self._find(key):
            self._same(key, existing, file, size, digest)
            if self._renew(key, existing):
                return False
        storing = f"store {file} as {key} in"
        with disk_errors(f"read {file}"), self._sentences(storing, "s3:PutObject"), file.open("rb") as stream:
            if self._put(key, stream, digest, IfNoneMatch="*", ContentLength=size):
                return True
        # someone else was faster, or the answer to our own upload was lost
        self._same(key, self._get(key), file, size, digest)
        return False

    def replace(self, key: str, content: bytes) -> None:
        """Against the object that was just seen: a try that is late overwrites nothing newer."""
        digest = hashlib.sha256(content).hexdigest()
        for _ in range(REPLACE_AGAIN):
            there = self._find(key)
            if there is not None and (there["ContentLength"], there["Metadata"].get(_SUM)) == (len(content), digest):
                return  # also by a try of ours whose answer was lost
            condition = {"IfNoneMatch": "*"} if there is None else {"IfMatch": there["ETag"]}
            with self._sentences(f"store {key} in", "s3:PutObject"):
                if self._put(key, content, digest, **condition):
                    return
        raise StoreError(f"{key} of {self.uri} is written by somebody else at the same time; run it again")

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        with self._sentences("list", "s3:ListBucket"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket_name, Prefix=self._prefix + prefix):
                for found in page.get("Contents", []):
                    key = str(found["Key"]).removeprefix(self._prefix)
                    yield Entry(key, int(found["Size"]), _seconds(found["LastModified"]))
        self._seen_bucket = True

    def delete(self, key: str) -> None:
        with self._sentences(f"delete {key} of", "s3:DeleteObject"):
            try:
                self._client.delete_object(Bucket=self._bucket_name, Key=self._name(key))
            except _errors.ClientError as error:
                if _code(error) not in _ABSENT:
                    raise

    def _put(self, key: str, body: Any, digest: str, **condition: Any) -> bool:
        """False where the condition does not hold."""
        try:
            self._client.put_object(
                Bucket=self._bucket_name,
                Key=self._name(key),
                Body=body,
                ContentType="application/octet-stream",
                ChecksumSHA256=base64.b64encode(bytes.fromhex(digest)).decode(),
                Metadata={_SUM: digest},
                **condition,
            )
        except _errors.ClientError as error:
            if _code(error) in _TAKEN:
                return False
            raise
        self._seen_bucket = True
        return True

    def _find(self, key: str) -> Any:
        """The object's head, or None."""
        # Without the right to list, S3 refuses to say that an object is absent.
        with self._sentences(f"look for {key} in", "s3:GetObject and s3:ListBucket"):
            try:
                found = self._head(self._name(key))
            except _errors.ClientError as error:
                if _code(error) not in _ABSENT:
                    raise
                self._check_bucket()
                return None
        self._seen_bucket = True
        return found

    def _head(self, name: str) -> Any:
        """A refusal of this question has no text, so the object itself is asked for, whose refusal has one."""
        try:
            return self._client.head_object(Bucket=self._bucket_name, Key=name)
        except _errors.ClientError as error:
            if _code(error) in _ABSENT:
                raise
            self._client.get_object(Bucket=self._bucket_name, Key=name)["Body"].close()
            return self._client.head_object(Bucket=self._bucket_name, Key=name)

    def _check_bucket(self) -> None:
        """Without a bucket every object is "not found" too."""
        if not self._seen_bucket:
            self._client.list_objects_v2(Bucket=self._bucket_name, MaxKeys=1)
            self._seen_bucket = True

    def _renew(self, key: str, found: Any) -> bool:
        """Set the age of an object in use back to zero, by a copy onto itself; False where gc has just deleted it."""
        if datetime.now(UTC) - found["LastModified"] < RENEW_AFTER:
            return True
        name = self._name(key)
        with self._sentences(f"renew {key} of", "s3:GetObject and s3:PutObject"):
            try:
                self._client.copy_object(
                    Bucket=self._bucket_name,
                    Key=name,
                    CopySource={"Bucket": self._bucket_name, "Key": name},
                    CopySourceIfMatch=found["ETag"],
                    MetadataDirective="REPLACE",
                    ContentType="application/octet-stream",
                    Metadata={**found["Metadata"], "slipway-put": datetime.now(UTC).isoformat()},
                )
            except _errors.ClientError as error:
                if _code(error) not in (*_TAKEN, *_ABSENT):
                    raise
                return False
        return True

    def _same(self, key: str, found: Any, file: Path, size: int, digest: str) -> None:
        if found["ContentLength"] != size:
            raise StoreError(f"{key} in {self.uri} has {found['ContentLength']} bytes, but {file} has {size}; {REPAIR}")
        if (found["Metadata"].get(_SUM) or self._digest(key)) != digest:
            raise StoreError(f"{key} in {self.uri} has another checksum than {file}; {REPAIR}")

    def _digest(self, key: str) -> str:
        """Of what somebody has put there by other means, without its sum."""
        digest = hashlib.sha256()
        with self._sentences(f"read {key} of", "s3:GetObject"):
            for block in self._client.get_object(Bucket=self._bucket_name, Key=self._name(key))["Body"].iter_chunks(
                1 << 20
            ):
                digest.update(block)
        return digest.hexdigest()

    @contextlib.contextmanager
    def _sentences(self, doing: str, permission: str) -> Generator[None]:
        """Turns whatever botocore raises while `doing` something to this store into one sentence.

        permission: what it takes.
        """
        try:
            yield
        except (_errors.BotoCoreError, _errors.ClientError) as error:
            raise self._sentence(f"cannot {doing} {self.uri}", error, permission) from error

    def _sentence(self, what: str, error: Any, permission: str) -> StoreError:
        where = self._endpoint or "Amazon"
        if not isinstance(error, _errors.ClientError):
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
            if isinstance(error, (_errors.HTTPClientError, _errors.ConnectionError)):
                return StoreError(f"{what}: no connection to {where} ({reason}); run it again when there is one")
            return StoreError(
                f"{what}: {reason.rstrip('.')}; log in (`aws sso login`), or choose a profile (AWS_PROFILE)"
            )
        code, status = _code(error), _status(error)
        reason = f"{code}: {error.response.get('Error', {}).get('Message', '')}".rstrip(": .").splitlines()[0][:300]
        if code == "NoSuchBucket" or (code in _ABSENT and status == 404):
            return NoBucketError(
                f"{what}: there is no bucket '{self._bucket_name}' at {where}; fix the name, or create it "
                f"(aws s3 mb s3://{self._bucket_name})"
            )
        if code in OF_CREDENTIALS:
            return StoreError(f"{what}: {where} does not accept this machine's credentials ({reason}); log in anew")
        there = _region_of(error)
        if code in ELSEWHERE or status in (301, 307):
            return StoreError(
                f"{what}: the bucket is in {there or 'another region'}, not {self._region} ({reason}); "
                f"run `export AWS_REGION={there or '<its region>'}`, and say it as s3_region"
            )
        if status == 403:
            resource = f"arn:aws:s3:::{self._bucket_name}" + ("" if permission == "s3:ListBucket" else "/*")
            return NotPermittedError(f"{what}: permission denied ({reason}); have {permission} granted on {resource}")
        return StoreError(f"{what}: {where} answered {status}: {reason}")


def _seconds(moment: datetime) -> datetime:
    """A listing of some servers has milliseconds, an object's head never has."""
    return moment.astimezone(UTC).replace(microsecond=0)


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _region_of(error: Any) -> str:
    """Where the bucket is, by an answer of another region's."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    said = error.response.get("Error", {})
    return str(headers.get("x-amz-bucket-region") or said.get("Region") or expected_region(said.get("Message", "")))
