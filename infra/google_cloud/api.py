"""An API of Google as our resources reach it: its host or the server in its place, sessions with credentials.

Owns how a call leaves this machine. Refuses to own what a failure of it means (api_errors.py) and when it is tried
again (retries.py). Google's modules are imported by the first call: they cost 0.8 s, and a preview of what is not there
yet makes none.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra.providers.resource import RemoteService, ResourceError

CALL_TIMEOUT_S = 30.0
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True)
class GoogleApi:
    """`name` is its name in sentences, `variable` (infra/emulated.py) holds the URL of a server in its place.

    `role` has the permissions that a 403 lacks. `own_error` knows what only this API says: from the HTTP status, the
    message and the sentence so far to an error, or None.
    """

    name: str
    host: str
    variable: str
    role: str
    own_error: Callable[[int, str, str], ResourceError | None] = lambda code, message, sentence: None

    @property
    def service(self) -> RemoteService:
        """Who answers its calls."""
        return RemoteService(self.host, self.variable, os.environ.get(self.variable, ""))

    def send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """A call over HTTP without a client of Google's. Returns the response; raises GoogleAPICallError."""
        instead = self.service.instead
        url = f"{instead.rstrip('/') or f'https://{self.host}'}/{path}"
        response = _session(instead).request(method, url, params=query, json=body, timeout=CALL_TIMEOUT_S)
        if not response.ok:
            raise importlib.import_module("google.api_core.exceptions").from_http_response(response)
        return response


def client_arguments(instead: str) -> dict[str, Any]:
    """What Google's own client of an API is made with; `instead` is the server in the API's place, or empty."""
    arguments: dict[str, Any] = {"transport": "rest"}
    if instead:
        arguments["client_options"] = {"api_endpoint": instead}
    if _is_emulator(instead):
        credentials: Any = importlib.import_module("google.auth.credentials")
        arguments["credentials"] = credentials.AnonymousCredentials()
    return arguments


@cache
def _session(instead: str) -> Any:
    if _is_emulator(instead):
        return importlib.import_module("requests").Session()
    credentials, _ = importlib.import_module("google.auth").default(scopes=[SCOPE])
    return importlib.import_module("google.auth.transport.requests").AuthorizedSession(credentials)


def _is_emulator(instead: str) -> bool:
    return instead.startswith("http://127.")
