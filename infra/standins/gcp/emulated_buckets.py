"""Buckets that the stand-in makes, in the emulated Cloud Storage that STORAGE_EMULATOR_HOST names, if it names one.

There stacks look for those of their foundation. Owns that such a bucket comes and goes with its resource. Refuses to
own what is in it: one with objects is not deleted, as at Google.
"""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote, urlsplit

from infra.emulated import STORAGE
from infra.providers.resource import ResourceError

TOKEN = "gcp:storage/bucket:Bucket"
_GONE, _THERE = 404, 409
_TIMEOUT_S = 60


class EmulatedBuckets:
    """endpoint: of the emulator, with a scheme or, as Go's client has it, without; empty: nothing is done."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def make(self, name: str) -> None:
        """One that is there already stays: `slipway emulate tpu` has those of the stacks that it knows."""
        self._ask("POST", "", json.dumps({"name": name}), passed_over=_THERE)

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/{quote(name)}", None, passed_over=_GONE)

    def _ask(self, method: str, path: str, body: str | None, passed_over: int) -> None:
        if not self._endpoint:
            return
        address = urlsplit(self._endpoint).netloc if "://" in self._endpoint else self._endpoint
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
        try:
            connection.request(method, f"/storage/v1/b{path}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
        except OSError as error:
            raise ResourceError(f"{STORAGE} is {self._endpoint}, which does not answer: {error}") from None
        finally:
            connection.close()
        if answer.status >= 400 and answer.status != passed_over:
            raise ResourceError(f"googleapi: Error {answer.status}: {json.loads(said)['error']['message']}")
