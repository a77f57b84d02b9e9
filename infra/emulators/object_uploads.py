"""How content arrives at the emulated Cloud Storage: in one body with its properties, or chunk by chunk.

Owns the form of a multipart body and the sessions of resumable uploads. Refuses to own what is done with the content
(stored_objects.py) and calls (object_store.py). Raises ObjectStoreError.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from infra.emulators.store_errors import ObjectStoreError
from infra.emulators.stored_objects import StoredObjects


def parts(headers: Message, body: bytes) -> tuple[dict[str, Any], bytes]:
    """A multipart/related body: the object's properties and its content."""
    match = re.search(r'boundary="?([^";]+)', headers.get("Content-Type") or "")
    if match is None:
        raise ObjectStoreError(400, "A multipart upload needs a boundary.")
    boundary = b"--" + match[1].encode()
    first, second = (b"\r\n" + body).split(b"\r\n" + boundary, 2)[1:]
    content = second[: second.rindex(b"\r\n" + boundary + b"--")]
    return json.loads(first.split(b"\r\n\r\n", 1)[1]), content.split(b"\r\n\r\n", 1)[1]


@dataclass
class _Session:
    """A resumable upload."""

    bucket: str
    name: str
    query: dict[str, str]
    properties: dict[str, Any]
    content: bytearray = field(default_factory=bytearray)
    result: dict[str, Any] | None = None


class ResumableUploads:
    """Whoever goes on asks for no permission: the session is one."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects
        self._sessions: dict[str, _Session] = {}

    def begin(self, bucket: str, name: str, query: dict[str, str], properties: dict[str, Any]) -> str:
        """The name of the session."""
        self._objects.check_generation(self._objects.file(bucket, name), query)
        upload_id = uuid.uuid4().hex
        self._sessions[upload_id] = _Session(bucket, name, query, properties)
        return upload_id

    def go_on(self, upload_id: str, headers: Message, body: bytes) -> dict[str, Any] | int:
        """Takes a chunk, or none. The object's resource once it is whole, until then how many bytes have arrived."""
        with self._objects.lock:
            session = self._sessions.get(upload_id)
            if session is None:
                raise ObjectStoreError(404, "No such upload session.")
            if session.result is not None:
                return session.result  # the answer to the last chunk was lost
            chunk_range = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", headers.get("Content-Range") or "")
            if chunk_range is None:
                raise ObjectStoreError(400, "A chunk needs a Content-Range.")
            if chunk_range[1] is not None:
                start = int(chunk_range[1])
                if start > len(session.content):
                    raise ObjectStoreError(503, "A chunk is missing.")
                session.content += body[len(session.content) - start :]  # what is there already is not taken twice
            if chunk_range[3] != "*" and len(session.content) == int(chunk_range[3]):
                session.result = self._end(session, headers)
                return session.result
            return len(session.content)

    def _end(self, session: _Session, headers: Message) -> dict[str, Any]:
        sums = re.findall(r"(crc32c|md5)=([^,]+)", headers.get("X-Goog-Hash") or "")
        fields = {"crc32c": "crc32c", "md5": "md5Hash"}
        properties = session.properties | {fields[kind]: value for kind, value in sums}
        content = bytes(session.content)
        result = self._objects.create(session.bucket, session.name, content, session.query, properties)
        session.content.clear()
        return result
