"""Cloud Storage's JSON API over real HTTP, as far as Google's client, gcsfs, TensorStore and our `curl` use it.

Owns: buckets (directories of `root`), objects (files in them), uploads of all three kinds with their preconditions and
checksums, pages, which permission a call needs, and faults at a chosen call; and the policies of projects, by which
their accounts have rights to buckets. Refuses to own roles and policies themselves (bucket_access.py,
bucket_policies.py), versions, access control lists and everything else.
A file put into `root/<bucket>/` by hand is an object too; its time of modification is the object's `updated`.

    python -m infra.emulators.object_store --port 0 --root DIRECTORY [--bucket NAME]... [--token TOKEN] [--page-size N]
prints its address as the first line and serves until it is killed.
"""

from __future__ import annotations

import argparse
import base64
import enum
import hashlib
import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import google_crc32c

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.http_server import ChosenCalls, EmulatorHandler, HttpEmulator, next_fault
from infra.emulators.storage_roles import (
    CREATE,
    DELETE,
    DELETE_BUCKET,
    GET,
    GET_BUCKET,
    GET_POLICY,
    LIST,
    MOVE,
    SET_POLICY,
    UPDATE,
)
from infra.emulators.store_errors import ObjectStoreError


class StoreFaultKind(enum.Enum):
    UNAVAILABLE = "503, nothing done"
    DENIED = "403, nothing done"
    LOST = "404 of the bucket, nothing done"
    LIMITED = "429, nothing done"
    FULL = "507, nothing done"
    CUT_BEFORE = "the connection is cut, nothing done"
    CUT_AFTER = "done, then the connection is cut: without an answer, or in the middle of an object's content"
    CORRUPT = "one bit of an object's content is wrong, as received or as sent"
    HOLD = "waits for `release` before it reads what is sent"


_REFUSALS = {
    StoreFaultKind.UNAVAILABLE: (503, "Backend unavailable, by order of the test."),
    StoreFaultKind.DENIED: (403, "the caller does not have storage access to the Google Cloud Storage object."),
    StoreFaultKind.LOST: (404, "The specified bucket does not exist."),
    StoreFaultKind.LIMITED: (429, "The rate of requests to this bucket is too high. Please reduce your request rate."),
    StoreFaultKind.FULL: (507, "There is no storage left for this bucket."),
}

_REASONS = {401: "required", 403: "forbidden", 404: "notFound", 412: "conditionNotMet", 429: "rateLimitExceeded"}


@dataclass
class StoreFault(ChosenCalls):
    kind: StoreFaultKind


@dataclass(frozen=True)
class StoreCall:
    method: str
    path: str
    query: dict[str, str]
    target: str  # path and query as sent


@dataclass
class _Session:
    """A resumable upload."""

    bucket: str
    name: str
    query: dict[str, str]
    properties: dict[str, Any]
    content: bytearray = field(default_factory=bytearray)
    result: dict[str, Any] | None = None


class ObjectStore(HttpEmulator):
    """Context manager around the server. token: every call must carry it.

    access: instead, whose tokens are valid and what each of them may do, by its policies; without it every caller may
    do everything. policies: of a server without it, else of nobody.
    """

    def __init__(
        self,
        root: Path,
        buckets: tuple[str, ...] = ("bucket",),
        page_size: int = 1000,
        token: str | None = None,
        port: int = 0,
        access: BucketAccess | None = None,
        policies: BucketPolicies | None = None,
    ) -> None:
        self.root = root
        self.page_size = page_size
        self.access = access
        self.policies = access.policies if access else policies or BucketPolicies()
        self.tokens: Container[str] | None = access.accounts if access else None if token is None else (token,)
        self.calls: list[StoreCall] = []
        self.faults: list[StoreFault] = []
        self.lock = threading.RLock()
        self.sessions: dict[str, _Session] = {}
        self._metadata: dict[tuple[str, str], tuple[dict[str, str], int]] = {}
        self._sums: dict[tuple[str, int, int], tuple[str, str]] = {}
        root.mkdir(parents=True, exist_ok=True)
        for bucket in buckets:
            (root / bucket).mkdir(exist_ok=True)
        super().__init__(_Handler, port)

    def close(self) -> None:
        for fault in self.faults:
            fault.release.set()
        super().close()

    def fail(self, kind: StoreFaultKind, method: str = "", path: str = "", skip: int = 0, times: int = 1) -> StoreFault:
        fault = StoreFault(kind, method=method, path=path, skip=skip, times=times)
        with self.lock:
            self.faults.append(fault)
        return fault

    # --- buckets ---

    def make_bucket(self, name: str, project: str) -> dict[str, Any]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", name):
            raise ObjectStoreError(400, f"Invalid bucket name: '{name}'")
        try:
            (self.root / name).mkdir()
        except FileExistsError:
            message = "Your previous request to create the named bucket succeeded and you already own it."
            raise ObjectStoreError(409, message) from None
        self.policies.begin(name, project)
        return self.bucket(name)

    def bucket(self, name: str) -> dict[str, Any]:
        self.file(name, "any")
        return {"kind": "storage#bucket", "id": name, "name": name, "location": "EUROPE-WEST4"}

    def delete_bucket(self, name: str) -> None:
        with self.lock:
            base = self.file(name, "any").parent
            if any(path.is_file() for path in base.rglob("*")):
                raise ObjectStoreError(409, "The bucket you tried to delete is not empty.")
            shutil.rmtree(base)
            self.policies.forget(name)

    # --- objects ---

    def file(self, bucket: str, name: str) -> Path:
        if not (self.root / bucket).is_dir() or bucket in ("", ".", ".."):
            raise ObjectStoreError(404, "The specified bucket does not exist.")
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise ObjectStoreError(400, f"Invalid object name for this emulator: {name}")
        return self.root / bucket / name

    def resource(self, bucket: str, name: str) -> dict[str, Any]:
        path = self.file(bucket, name)
        if not path.is_file():
            raise ObjectStoreError(404, f"No such object: {bucket}/{name}")
        stat, known = path.stat(), _version(path)
        if known not in self._sums:
            content = path.read_bytes()
            self._sums[known] = (crc32c(content), _md5(content))
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
        own_crc32c, own_md5 = crc32c(content), _md5(content)  # before the lock: other uploads go on meanwhile
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
            self._sums[_version(path)] = (own_crc32c, own_md5)
            self._metadata[bucket, name] = (dict(properties.get("metadata") or {}), 1)
            return self.resource(bucket, name)

    def check_permission(self, token: str, permission: str, bucket: str) -> None:
        if self.access and (self.root / bucket).is_dir() and (said := self.access.refusal(token, permission, bucket)):
            raise ObjectStoreError(403, said)

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


def _version(path: Path) -> tuple[str, int, int]:
    """Of a file: what is written into it later has another one."""
    stat = path.stat()
    return (str(path), stat.st_mtime_ns, stat.st_size)


def crc32c(content: bytes) -> str:
    checksum: Any = google_crc32c  # it has no types
    return _base64(checksum.value(content).to_bytes(4, "big"))


def _md5(content: bytes) -> str:
    return _base64(hashlib.md5(content, usedforsecurity=False).digest())


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1]) if content else content


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_content: bool = False


def _json(value: dict[str, Any], **headers: str) -> _Answer:
    return _Answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | headers)


class _Handler(EmulatorHandler):
    def _serve(self) -> None:
        owner: ObjectStore = self.server.owner
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        call = StoreCall(self.command, parts.path, query, self.path)
        with owner.lock:
            owner.calls.append(call)
            fault = next_fault(
                each for each in owner.faults if each.method in ("", call.method) and each.path in self.path
            )
        kind = fault.kind if fault else None
        if fault and kind is StoreFaultKind.HOLD:
            fault.held.set()
            fault.release.wait()
        body = self.body()
        client_is_gone = len(body) < int(self.headers.get("Content-Length") or 0)
        if client_is_gone or kind is StoreFaultKind.CUT_BEFORE:
            self.close_connection = True
            return
        if kind is StoreFaultKind.CORRUPT:
            body = self._corrupted(call, body)
        answer = self._answer(owner, call, kind, body)
        content = b"" if self.command == "HEAD" else answer.body
        if kind is StoreFaultKind.CORRUPT and answer.is_content:
            content = _flipped(content)
        if kind is StoreFaultKind.CUT_AFTER:
            self.close_connection = True
            if not answer.is_content:
                return
            content = content[: len(content) // 2]
        self.send(answer.status, answer.headers, content, length=len(answer.body))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 (http.server's names)

    def _corrupted(self, call: StoreCall, body: bytes) -> bytes:
        if call.query.get("uploadType") != "multipart":
            return _flipped(body)
        content = self._parts(body)[1]
        return body.replace(content, _flipped(content))

    def _parts(self, body: bytes) -> tuple[dict[str, Any], bytes]:
        """A multipart/related body: the object's properties and its content."""
        match = re.search(r'boundary="?([^";]+)', self.headers.get("Content-Type") or "")
        if match is None:
            raise ObjectStoreError(400, "A multipart upload needs a boundary.")
        boundary = b"--" + match[1].encode()
        first, second = (b"\r\n" + body).split(b"\r\n" + boundary, 2)[1:]
        content = second[: second.rindex(b"\r\n" + boundary + b"--")]
        return json.loads(first.split(b"\r\n\r\n", 1)[1]), content.split(b"\r\n\r\n", 1)[1]

    def _answer(self, owner: ObjectStore, call: StoreCall, kind: StoreFaultKind | None, body: bytes) -> _Answer:
        try:
            self._admit(owner, kind)
            return self._route(owner, call, body)
        except ObjectStoreError as error:
            detail = {"message": error.message, "domain": "global", "reason": _REASONS.get(error.status, "invalid")}
            answer = {"error": {"code": error.status, "message": error.message, "errors": [detail]}}
            return _Answer(error.status, json.dumps(answer, indent=2).encode(), {"Content-Type": "application/json"})

    def _admit(self, owner: ObjectStore, kind: StoreFaultKind | None) -> None:
        if kind in _REFUSALS:
            raise ObjectStoreError(*_REFUSALS[kind])
        scheme, _, self._token = (self.headers.get("Authorization") or "").partition(" ")
        if owner.tokens is not None and (scheme != "Bearer" or self._token not in owner.tokens):
            raise ObjectStoreError(401, "Anonymous caller does not have storage access, or its token is not valid.")

    def _may(self, owner: ObjectStore, bucket: str, *permissions: str) -> None:
        for permission in permissions:
            owner.check_permission(self._token, permission, bucket)

    def _may_find(self, owner: ObjectStore, bucket: str, name: str, permission: str) -> None:
        """Whether an object is there, only those are told who may list the bucket."""
        self._may(owner, bucket, permission)
        if not owner.file(bucket, name).is_file():
            self._may(owner, bucket, LIST)

    def _may_put(self, owner: ObjectStore, bucket: str, name: str, query: Mapping[str, str]) -> None:
        """Replacing an object is deleting one as well."""
        replaces = owner.file(bucket, name).is_file() and query.get("ifGenerationMatch") != "0"
        self._may(owner, bucket, CREATE, *((DELETE,) if replaces else ()))

    def _may_move(self, owner: ObjectStore, bucket: str) -> None:
        if not (owner.access and owner.access.has(self._token, MOVE, bucket)):
            self._may(owner, bucket, GET, DELETE)

    def _route(self, owner: ObjectStore, call: StoreCall, body: bytes) -> _Answer:
        if match := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", call.path):
            return self._upload(owner, call, unquote(match[1]), body)
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)", call.path):
            bucket, name, to_bucket, to_name = map(unquote, match.groups())
            self._may_find(owner, bucket, name, GET)
            self._may_put(owner, to_bucket, to_name, call.query)
            return _json(owner.copy(bucket, name, to_bucket, to_name))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/moveTo/o/([^/]+)", call.path):
            bucket, name, to_name = map(unquote, match.groups())
            self._may_move(owner, bucket)
            self._may_put(owner, bucket, to_name, call.query)
            return _json(owner.move(bucket, name, to_name))
        if match := re.fullmatch(r"(/download)?/storage/v1/b/([^/]+)/o/(.+)", call.path):
            bucket, name = unquote(match[2]), unquote(match[3])
            self._may_find(owner, bucket, name, {"DELETE": DELETE, "PATCH": UPDATE}.get(call.method, GET))
            if call.method == "DELETE":
                owner.delete(bucket, name, call.query)
                return _Answer(204)
            if call.method == "PATCH":
                return _json(owner.patch(bucket, name, call.query, json.loads(body)))
            if match[1] or call.query.get("alt") == "media":
                return self._content(owner, bucket, name, call)
            return _json(owner.resource(bucket, name))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/?", call.path):
            self._may(owner, unquote(match[1]), LIST)
            return _json(owner.listing(unquote(match[1]), call.query))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)", call.path):
            bucket = unquote(match[1])
            self._may(owner, bucket, DELETE_BUCKET if call.method == "DELETE" else GET_BUCKET)
            if call.method == "DELETE":
                owner.delete_bucket(bucket)
                return _Answer(204)
            return _json(owner.bucket(bucket))
        if (call.method, call.path) == ("POST", "/storage/v1/b"):
            project = call.query.get("project", "")
            if owner.access and (said := owner.access.refusal_of_bucket(self._token, project)):
                raise ObjectStoreError(403, said)
            return _json(owner.make_bucket(str(json.loads(body).get("name")), project))
        if call.method in ("GET", "PUT") and (match := re.fullmatch(r"/storage/v1/b/([^/]+)/iam", call.path)):
            return _json(self._policy(owner, call.method, unquote(match[1]), body))
        if owner.access is None and (match := re.fullmatch(r"/v1/projects/([^/:]+):([gs]et)IamPolicy", call.path)):
            project = unquote(match[1])
            if match[2] == "get":
                return _json(owner.policies.of_project(project))
            return _json(owner.policies.set_of_project(project, json.loads(body)["policy"]))
        if call.method in ("GET", "HEAD") and (match := re.fullmatch(r"/([^/]+)/(.+)", call.path)):
            bucket, name = unquote(match[1]), unquote(match[2])  # as the XML API has it
            self._may_find(owner, bucket, name, GET)
            return self._content(owner, bucket, name, call)
        raise ObjectStoreError(404, f"The emulator does not know {call.method} {call.path}.")

    def _policy(self, owner: ObjectStore, method: str, bucket: str, body: bytes) -> dict[str, Any]:
        owner.file(bucket, "any")
        self._may(owner, bucket, GET_POLICY if method == "GET" else SET_POLICY)
        return (
            owner.policies.of_bucket(bucket)
            if method == "GET"
            else owner.policies.set_of_bucket(bucket, json.loads(body))
        )

    def _content(self, owner: ObjectStore, bucket: str, name: str, call: StoreCall) -> _Answer:
        with owner.lock:
            resource = owner.resource(bucket, name)
            path = owner.file(bucket, name)
            owner.check_generation(path, call.query)
            if call.query.get("generation", resource["generation"]) != resource["generation"]:
                raise ObjectStoreError(404, f"No such object: {bucket}/{name}")
            part = self._range(path.stat().st_size)
            start, end = part or (0, path.stat().st_size)
            with path.open("rb") as file:
                file.seek(start)
                content = file.read(end - start)
        headers = {
            "Content-Type": resource["contentType"],
            "X-Goog-Hash": f"crc32c={resource['crc32c']},md5={resource['md5Hash']}",
            "X-Goog-Generation": resource["generation"],
            "X-Goog-Stored-Content-Length": resource["size"],
            "X-Goog-Stored-Content-Encoding": "identity",
            "ETag": f'"{resource["generation"]}"',
            "Accept-Ranges": "bytes",
        }
        if part is None:
            return _Answer(200, content, headers, is_content=True)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{resource['size']}"
        return _Answer(206, content, headers, is_content=True)

    def _range(self, size: int) -> tuple[int, int] | None:
        """Which of that many bytes are asked for, from the first to before the last; None: all."""
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if byte_range is None:
            return None
        start, end = int(byte_range[1]), min(int(byte_range[2] or size - 1), size - 1) + 1
        if start >= end:
            raise ObjectStoreError(416, "The requested range cannot be satisfied.")
        return start, end

    def _upload(self, owner: ObjectStore, call: StoreCall, bucket: str, body: bytes) -> _Answer:
        query = call.query
        owner.file(bucket, "any")
        if "upload_id" in query:
            return self._continue(owner, query["upload_id"], body)
        if query.get("uploadType") == "media":
            self._may_put(owner, bucket, query["name"], query)
            return _json(owner.create(bucket, query["name"], body, query, {}))
        if query.get("uploadType") == "multipart":
            described, content = self._parts(body)
            name = str(described.get("name") or query["name"])
            self._may_put(owner, bucket, name, query)
            return _json(owner.create(bucket, name, content, query, described))
        if query.get("uploadType") == "resumable":
            described = json.loads(body or b"{}")
            name = str(described.get("name") or query["name"])
            self._may_put(owner, bucket, name, query)
            owner.check_generation(owner.file(bucket, name), query)
            upload_id = uuid.uuid4().hex
            owner.sessions[upload_id] = _Session(bucket, name, query, described)
            where = f"{owner.url}{call.path}?uploadType=resumable&upload_id={upload_id}"
            return _json({}, Location=where, **{"X-GUploader-UploadID": upload_id})
        raise ObjectStoreError(400, f"Unknown uploadType {query.get('uploadType')!r}.")

    def _continue(self, owner: ObjectStore, upload_id: str, body: bytes) -> _Answer:
        """Takes a chunk of a resumable upload, or answers how much of it has arrived."""
        with owner.lock:
            session = owner.sessions.get(upload_id)
            if session is None:
                raise ObjectStoreError(404, "No such upload session.")
            if session.result is not None:
                return _json(session.result)  # the answer to the last chunk was lost
            chunk_range = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", self.headers.get("Content-Range") or "")
            if chunk_range is None:
                raise ObjectStoreError(400, "A chunk needs a Content-Range.")
            if chunk_range[1] is not None:
                start = int(chunk_range[1])
                if start > len(session.content):
                    raise ObjectStoreError(503, "A chunk is missing.")
                session.content += body[len(session.content) - start :]  # what is there already is not taken twice
            if chunk_range[3] != "*" and len(session.content) == int(chunk_range[3]):
                sums = re.findall(r"(crc32c|md5)=([^,]+)", self.headers.get("X-Goog-Hash") or "")
                fields = {"crc32c": "crc32c", "md5": "md5Hash"}
                described = session.properties | {fields[kind]: value for kind, value in sums}
                content = bytes(session.content)
                session.result = owner.create(session.bucket, session.name, content, session.query, described)
                session.content.clear()
                return _json(session.result)
            headers = {"Range": f"bytes=0-{len(session.content) - 1}"} if session.content else {}
            return _Answer(308, b"", headers)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--root", type=Path, required=True, help="its directories are the buckets")
    parser.add_argument("--bucket", action="append", default=[], help="make this bucket")
    parser.add_argument("--token", help="the bearer token that every call must carry")
    parser.add_argument("--page-size", type=int, default=1000)
    options = parser.parse_args()
    store = ObjectStore(options.root, tuple(options.bucket), options.page_size, options.token, options.port)
    print(store.url, flush=True)
    store.serve_forever()


if __name__ == "__main__":
    main()
