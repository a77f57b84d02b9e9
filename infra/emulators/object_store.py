"""Cloud Storage's JSON API over real HTTP, as far as Google's client, gcsfs, TensorStore and our `curl` use it.

Owns the server: which path is which call, what is answered, and faults at a chosen call. Refuses to own buckets and
objects (stored_objects.py), uploads (object_uploads.py), which permission a call needs (call_permissions.py), roles and
policies (bucket_access.py, bucket_policies.py), versions, access control lists and everything else. It answers for the
policies of projects too, since their accounts have rights to buckets by them.
A file put into `root/<bucket>/` by hand is an object too; its time of modification is the object's `updated`.

    python -m infra.emulators.object_store --port 0 --root DIRECTORY [--bucket NAME]... [--token TOKEN] [--page-size N]
prints its address as the first line and serves until it is killed.
"""

from __future__ import annotations

import argparse
import enum
import json
import re
import threading
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.call_permissions import CallPermissions
from infra.emulators.http_server import ChosenCalls, EmulatorHandler, HttpEmulator, next_fault
from infra.emulators.object_uploads import ResumableUploads, parts
from infra.emulators.storage_roles import DELETE, DELETE_BUCKET, GET, GET_BUCKET, GET_POLICY, LIST, SET_POLICY, UPDATE
from infra.emulators.store_errors import ObjectStoreError
from infra.emulators.stored_objects import StoredObjects


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
        self.objects = StoredObjects(root, page_size)
        self.uploads = ResumableUploads(self.objects)
        self.access = access
        self.policies = access.policies if access else policies or BucketPolicies()
        self.tokens: Container[str] | None = access.accounts if access else None if token is None else (token,)
        self.calls: list[StoreCall] = []
        self.faults: list[StoreFault] = []
        self.lock = threading.Lock()
        root.mkdir(parents=True, exist_ok=True)
        for bucket in buckets:
            (root / bucket).mkdir(exist_ok=True)
        super().__init__(_Handler, port)
        self.objects.url = self.url

    @property
    def root(self) -> Path:
        return self.objects.root

    def close(self) -> None:
        for fault in self.faults:
            fault.release.set()
        super().close()

    def fail(self, kind: StoreFaultKind, method: str = "", path: str = "", skip: int = 0, times: int = 1) -> StoreFault:
        fault = StoreFault(kind, method=method, path=path, skip=skip, times=times)
        with self.lock:
            self.faults.append(fault)
        return fault


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
        asked = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(asked.query).items()}
        call = StoreCall(self.command, asked.path, query, self.path)
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
        content = parts(self.headers, body)[1]
        return body.replace(content, _flipped(content))

    def _answer(self, owner: ObjectStore, call: StoreCall, kind: StoreFaultKind | None, body: bytes) -> _Answer:
        try:
            return self._route(owner, self._admitted(owner, kind), call, body)
        except ObjectStoreError as error:
            detail = {"message": error.message, "domain": "global", "reason": _REASONS.get(error.status, "invalid")}
            answer = {"error": {"code": error.status, "message": error.message, "errors": [detail]}}
            return _Answer(error.status, json.dumps(answer, indent=2).encode(), {"Content-Type": "application/json"})

    def _admitted(self, owner: ObjectStore, kind: StoreFaultKind | None) -> CallPermissions:
        if kind in _REFUSALS:
            raise ObjectStoreError(*_REFUSALS[kind])
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if owner.tokens is not None and (scheme != "Bearer" or token not in owner.tokens):
            raise ObjectStoreError(401, "Anonymous caller does not have storage access, or its token is not valid.")
        return CallPermissions(owner.access, owner.objects, token)

    def _route(self, owner: ObjectStore, caller: CallPermissions, call: StoreCall, body: bytes) -> _Answer:
        if match := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", call.path):
            return self._upload(owner, caller, call, unquote(match[1]), body)
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)", call.path):
            bucket, name, to_bucket, to_name = map(unquote, match.groups())
            caller.may_find(bucket, name, GET)
            caller.may_put(to_bucket, to_name, call.query)
            return _json(owner.objects.copy(bucket, name, to_bucket, to_name))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/moveTo/o/([^/]+)", call.path):
            bucket, name, to_name = map(unquote, match.groups())
            caller.may_move(bucket)
            caller.may_put(bucket, to_name, call.query)
            return _json(owner.objects.move(bucket, name, to_name))
        if match := re.fullmatch(r"(/download)?/storage/v1/b/([^/]+)/o/(.+)", call.path):
            bucket, name = unquote(match[2]), unquote(match[3])
            caller.may_find(bucket, name, {"DELETE": DELETE, "PATCH": UPDATE}.get(call.method, GET))
            if call.method == "DELETE":
                owner.objects.delete(bucket, name, call.query)
                return _Answer(204)
            if call.method == "PATCH":
                return _json(owner.objects.patch(bucket, name, call.query, json.loads(body)))
            if match[1] or call.query.get("alt") == "media":
                return self._content(owner, bucket, name, call)
            return _json(owner.objects.resource(bucket, name))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)/o/?", call.path):
            caller.may(unquote(match[1]), LIST)
            return _json(owner.objects.listing(unquote(match[1]), call.query))
        if match := re.fullmatch(r"/storage/v1/b/([^/]+)", call.path):
            bucket = unquote(match[1])
            caller.may(bucket, DELETE_BUCKET if call.method == "DELETE" else GET_BUCKET)
            if call.method == "DELETE":
                owner.objects.delete_bucket(bucket)
                owner.policies.forget(bucket)
                return _Answer(204)
            return _json(owner.objects.bucket(bucket))
        if (call.method, call.path) == ("POST", "/storage/v1/b"):
            project = call.query.get("project", "")
            caller.may_make_bucket(project)
            asked = json.loads(body)
            made = owner.objects.make_bucket(str(asked.get("name")), asked)
            owner.policies.begin(made["name"], project)
            return _json(made)
        if call.method in ("GET", "PUT") and (match := re.fullmatch(r"/storage/v1/b/([^/]+)/iam", call.path)):
            return _json(self._policy(owner, caller, call.method, unquote(match[1]), body))
        if owner.access is None and (match := re.fullmatch(r"/v1/projects/([^/:]+):([gs]et)IamPolicy", call.path)):
            project = unquote(match[1])
            if match[2] == "get":
                return _json(owner.policies.of_project(project))
            return _json(owner.policies.set_of_project(project, json.loads(body)["policy"]))
        if call.method in ("GET", "HEAD") and (match := re.fullmatch(r"/([^/]+)/(.+)", call.path)):
            bucket, name = unquote(match[1]), unquote(match[2])  # as the XML API has it
            caller.may_find(bucket, name, GET)
            return self._content(owner, bucket, name, call)
        raise ObjectStoreError(404, f"The emulator does not know {call.method} {call.path}.")

    def _policy(
        self, owner: ObjectStore, caller: CallPermissions, method: str, bucket: str, body: bytes
    ) -> dict[str, Any]:
        owner.objects.file(bucket, "any")
        caller.may(bucket, GET_POLICY if method == "GET" else SET_POLICY)
        if method == "GET":
            return owner.policies.of_bucket(bucket)
        return owner.policies.set_of_bucket(bucket, json.loads(body))

    def _content(self, owner: ObjectStore, bucket: str, name: str, call: StoreCall) -> _Answer:
        with owner.objects.lock:
            resource = owner.objects.resource(bucket, name)
            path = owner.objects.file(bucket, name)
            owner.objects.check_generation(path, call.query)
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

    def _upload(
        self, owner: ObjectStore, caller: CallPermissions, call: StoreCall, bucket: str, body: bytes
    ) -> _Answer:
        query = call.query
        owner.objects.file(bucket, "any")
        if "upload_id" in query:
            arrived = owner.uploads.go_on(query["upload_id"], self.headers, body)
            if isinstance(arrived, int):
                return _Answer(308, b"", {"Range": f"bytes=0-{arrived - 1}"} if arrived else {})
            return _json(arrived)
        if query.get("uploadType") == "media":
            caller.may_put(bucket, query["name"], query)
            return _json(owner.objects.create(bucket, query["name"], body, query, {}))
        if query.get("uploadType") == "multipart":
            described, content = parts(self.headers, body)
            name = str(described.get("name") or query["name"])
            caller.may_put(bucket, name, query)
            return _json(owner.objects.create(bucket, name, content, query, described))
        if query.get("uploadType") == "resumable":
            described = json.loads(body or b"{}")
            name = str(described.get("name") or query["name"])
            caller.may_put(bucket, name, query)
            upload_id = owner.uploads.begin(bucket, name, query, described)
            where = f"{owner.url}{call.path}?uploadType=resumable&upload_id={upload_id}"
            return _json({}, Location=where, **{"X-GUploader-UploadID": upload_id})
        raise ObjectStoreError(400, f"Unknown uploadType {query.get('uploadType')!r}.")


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
