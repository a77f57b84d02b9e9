"""Objects of a bucket, read over HTTPS with the host's own token, as bootstrap.sh reads wheels. Standard library only.

Owns the request to Google, its token, and going on where an answer broke off, of a bucket of S3 too. Refuses to own how
S3 is asked (training/s3_objects.py), what is read and what it should be.
Not one of the clients that checkpoints need: importing one takes longer than most corpora take to arrive, and none of
them goes on in the middle of an object.

SLIPWAY_STORAGE_ENDPOINT names another server, as in bootstrap.sh.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from training.hosts import ask_metadata
from training.s3_objects import PASSING, S3Error, S3Objects

PATIENCE_S = 120.0  # without a byte
_ANSWER_S = 30.0
_CHUNK_BYTES = 1 << 20
_opener = urllib.request.build_opener()  # with the proxies of the environment, as curl
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0


class BucketReadError(Exception):
    """An object cannot be had as it should be, in one sentence with the object and the byte; another start may."""


@dataclass
class _Reading:
    """How far an object has arrived; of which generation it is, once a first answer has said that."""

    url: str
    at: int
    size: int | None
    generation: str = ""

    @property
    def is_done(self) -> bool:
        return self.size is not None and self.at >= self.size

    def begin(self, answer: Any) -> None:
        """Raises BucketReadError where the answer is of another object than was expected."""
        headers, url, at = answer.headers, self.url, self.at
        content_range = str(headers.get("Content-Range") or "")  # none of a server that sends the whole
        if at and not content_range.startswith(f"bytes {at}-"):
            raise BucketReadError(f"{url} cannot be read on from byte {at:,}: the bucket sends other bytes than those")
        size = int(content_range.rpartition("/")[2] or headers.get("Content-Length") or 0)
        if self.size not in (None, size):
            raise BucketReadError(
                f"{url} has {size:,} bytes, but its manifest says {self.size:,}: it differs from byte "
                f"{min(size, self.size or 0):,} on at the latest"
            )
        generation = str(headers.get("X-Goog-Generation") or headers.get("ETag") or "")
        if self.generation not in ("", generation):
            raise BucketReadError(f"{url} was replaced while it was read: it is another object at byte {at:,}")
        self.size, self.generation = size, generation


class _Patience:
    """Growing waits between tries, for so many seconds without a byte."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._pause_s, self._until = _FIRST_PAUSE_S, time.monotonic() + self._seconds

    def waited(self) -> bool:
        """False where it is at its end."""
        if time.monotonic() + self._pause_s > self._until:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True


class BucketReader:
    """Of one host; its calls may come from several threads."""

    def __init__(self, environ: Mapping[str, str], patience_s: float = PATIENCE_S) -> None:
        self._environ = environ
        self._endpoint = environ.get("SLIPWAY_STORAGE_ENDPOINT") or "https://storage.googleapis.com"
        self._patience_s = patience_s
        self._s3 = S3Objects(environ)
        self._token = ""
        self._lock = threading.Lock()

    def read(self, url: str) -> bytes:
        """The whole of a small object."""
        return b"".join(map(bytes, self.chunks(url, 0, None)))

    def chunks(self, url: str, start: int, size: int | None) -> Generator[memoryview]:
        """The bytes of `gs://bucket/name` or `s3://bucket/name` from `start` on; a chunk is valid until the next.

        size: what the object has to have; None: whatever it has. Raises BucketReadError, also where the object becomes
        another one on the way.
        """
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        reading, patience = _Reading(url, start, size), _Patience(self._patience_s)
        while not reading.is_done:
            problem = "the answer ended early"
            try:
                with self._open(reading) as answer:
                    reading.begin(answer)
                    while count := answer.readinto(buffer):
                        reading.at += count
                        patience.renew()
                        yield buffer[:count]
            except urllib.error.HTTPError as error:
                problem = self._refused(reading, error)
            except S3Error as error:
                if not error.is_passing:
                    raise BucketReadError(str(error)) from None
                problem = str(error)
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", "") or error) or type(error).__name__
            if not reading.is_done and not patience.waited():
                of = f" of {reading.size:,}" if reading.size else ""
                raise BucketReadError(f"{url} cannot be read on from byte {reading.at:,}{of}: {problem}")

    def _open(self, reading: _Reading) -> Any:
        if reading.url.startswith("s3://"):
            return self._s3.open(reading.url, reading.at)
        bucket, _, name = reading.url.removeprefix("gs://").partition("/")
        request = urllib.request.Request(  # noqa: S310 - https, or what somebody named in its place
            f"{self._endpoint}/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media",
            headers={"Authorization": f"Bearer {self._bearer(reading.url)}", "Range": f"bytes={reading.at}-"},
        )
        return _opener.open(request, timeout=_ANSWER_S)

    def _bearer(self, url: str) -> str:
        with self._lock:
            if not self._token:
                try:
                    with ask_metadata(self._environ, "service-accounts/default/token", _ANSWER_S) as answer:
                        self._token = str(json.load(answer)["access_token"])
                except urllib.error.URLError as error:
                    sentence = f"the metadata server gives no token for {url}: {error}"
                    if isinstance(error.reason, socket.gaierror):
                        raise BucketReadError(sentence) from None
                    raise OSError(sentence) from None
            return self._token

    def _refused(self, reading: _Reading, error: urllib.error.HTTPError) -> str:
        """What the bucket answers, where asking again may help. Raises BucketReadError where it does not."""
        with error:
            said = _message(error)
        url, at = reading.url, reading.at
        if error.code == 401:
            self._token = ""  # it lives for an hour, and a large corpus takes longer
        if error.code == 401 or error.code in PASSING:
            return f"the bucket answers {error.code}{said}"
        if error.code == 404:
            raise BucketReadError(f"{url} is lost: at byte {at:,} the bucket answers 404{said}")
        if error.code == 416:
            raise BucketReadError(f"{url} is cut short: there is nothing at byte {at:,}")
        role = "; this host's account needs roles/storage.objectViewer there, which a foundation gives it"
        raise BucketReadError(
            f"{url} cannot be read at byte {at:,}: the bucket answers {error.code}{said}{role * (error.code == 403)}"
        )


def _message(error: urllib.error.HTTPError) -> str:
    """Cloud Storage's own sentence."""
    try:
        return f": {json.loads(error.read(1 << 16))['error']['message']}".rstrip(".")
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return ""
