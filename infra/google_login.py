"""What to do about a refusal of Google's, by its HTTP status; how a person gets credentials, and a cluster a token."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

from infra.sentences import SentenceError

LOGIN_COMMAND = "gcloud auth application-default login"
TRANSIENT = (429, 500, 502, 503, 504)
CREDENTIAL_API = "client.authentication.k8s.io/v1"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_GIVEN = ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN")  # as Google's plugin and its command line read it


class LoginError(SentenceError):
    """There are no credentials of Google's here that are of use."""


def advised(sentence: str, status: int | None, role: str = "") -> str:
    """The sentence and what to do, where the status tells. role: has the permissions that a 403 lacks."""
    login = f"run `{LOGIN_COMMAND}`"
    granted = f"have it granted{role and f' ({role})'}, or {login} as who has it"
    advice = {401: login, 403: granted, **dict.fromkeys(TRANSIENT, "run it again")}.get(status or 0)
    return f"{sentence}; {advice}" if advice else sentence


def credential() -> str:
    """What a kubeconfig's `exec` wants: a token of whoever Google's clients act as here, and until when it is good.

    Raises LoginError with the way to get one.
    """
    given = next((os.environ[name] for name in _GIVEN if os.environ.get(name)), "")
    status = {"token": given} if given else _asked()
    return json.dumps({"apiVersion": CREDENTIAL_API, "kind": "ExecCredential", "status": status})


def _asked() -> dict[str, str]:
    auth: Any = importlib.import_module("google.auth")
    transport: Any = importlib.import_module("google.auth.transport.requests")
    try:
        credentials, _ = auth.default(scopes=[_SCOPE])
        credentials.refresh(transport.Request())
    except auth.exceptions.GoogleAuthError as error:
        why = " ".join(str(error).split())
        raise LoginError(
            f"there are no credentials of Google's for the cluster ({why}); run: {LOGIN_COMMAND}"
        ) from None
    expiry = credentials.expiry  # in UTC, without saying so
    until = {"expirationTimestamp": f"{expiry:%Y-%m-%dT%H:%M:%SZ}"} if expiry else {}
    return {"token": credentials.token} | until
