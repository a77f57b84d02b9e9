"""What a failed call of a Google API means: which error it is, and whether another try may help.

Owns Google's error model, the same for every API. Refuses to own what only one API says (`own_error` of api.py) and the
pauses between tries (retries.py).
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

from infra.google_cloud.api import GoogleApi
from infra.google_login import TRANSIENT, advised
from infra.providers.resource import ResourceError

_CLOSED = "LOCATION_POLICY_VIOLATED"


class GoneError(ResourceError):
    """What the call names is not there."""


class ThereAlreadyError(ResourceError):
    """The id is taken."""


class BusyError(ResourceError):
    """Something is under way with it already, or must end before."""


class FullError(ResourceError):
    """This zone cannot serve the request now: no quota or no capacity in it."""


class ClosedError(FullError):
    """This zone is closed to the project: nothing can be asked for in it, nor looked up."""


class SilentError(ResourceError):
    """No answer that can be read: whether the call had an effect is not known."""


class UnreadableError(Exception):
    """An answer with status 200 that says nothing."""


@dataclass(frozen=True)
class Failure:
    """What a failed call is. `after_s` is how long the server asks to wait before another try."""

    error: ResourceError
    is_transient: bool = False
    after_s: float = 0.0


def judge(api: GoogleApi, doing: str, error: BaseException) -> Failure:
    """What went wrong while `doing`, as in `cannot read q`. Raises the error itself where it is a fault of ours."""
    google: Any = importlib.import_module("google.api_core.exceptions")
    auth: Any = importlib.import_module("google.auth.exceptions")
    http: Any = importlib.import_module("requests.exceptions")
    protobuf: Any = importlib.import_module("google.protobuf.json_format")
    if isinstance(error, google.GoogleAPICallError):
        return _judge_refusal(api, doing, error)
    if isinstance(error, auth.TransportError | http.RequestException | google.RetryError):
        kind = "in time" if isinstance(error, http.Timeout) else f"({type(error).__name__})"
        return Failure(SilentError(f"cannot {doing}: {api.name} does not answer {kind}; run it again"), True)
    if isinstance(error, UnreadableError | protobuf.ParseError):
        sentence = (
            f"cannot {doing}: the answer is not one of {api.name}; look at proxies in between "
            f"(HTTPS_PROXY, {api.variable}), then run it again"
        )
        return Failure(SilentError(sentence), True)
    if isinstance(error, auth.GoogleAuthError):
        return Failure(ResourceError(advised(f"cannot {doing}: no valid Google credentials on this machine", 401)))
    raise error


def _judge_refusal(api: GoogleApi, doing: str, error: Any) -> Failure:
    code, status = int(error.code or 0), _status(error)
    # Without the `POST https://...: ` that Google's client puts before it.
    message = re.sub(r"^[A-Z]+ \S+: ", "", str(error.message)).strip() or "no reason is given"
    sentence = f"cannot {doing}: {message}"
    if code == 404:
        return Failure(GoneError(f"cannot {doing}: it is not there"))
    if code == 409 and status != "ABORTED" and error.reason != "OPERATION_IN_PROGRESS":
        return Failure(ThereAlreadyError(f"cannot {doing}: the id is taken"))
    if code == 409 or status == "FAILED_PRECONDITION":
        return Failure(BusyError(f"{sentence} ({status}); run it again once that has ended"))
    if code == 403 and (error.reason == _CLOSED or _CLOSED in message):
        return Failure(ClosedError(f"{sentence} Give another zone"))
    if own_error := api.own_error(code, message, sentence):
        return Failure(own_error)
    if code in (401, 403):
        return Failure(ResourceError(advised(sentence, code, api.role)))
    if code == 429 and _is_quota(error, message):
        return Failure(FullError(f"{sentence} Ask for more in the console (IAM, Quotas) or give another zone"))
    if code in TRANSIENT:
        kind = SilentError if code >= 500 else ResourceError
        return Failure(kind(advised(f"{sentence} ({code})", code)), True, _retry_after_s(error))
    return Failure(ResourceError(f"{sentence} ({code} {status}); mend the stack file and run it again"))


def _status(error: Any) -> str:
    """google.rpc's code by name, which over REST is only in the body: a 409 is ALREADY_EXISTS or ABORTED."""
    try:
        return str(error.response.json()["error"]["status"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _is_quota(error: Any, message: str) -> bool:
    """Whether a 429 is about machines; else it is about calls per minute, and waiting helps.

    The TPU API names the limit in the sentence and in a QuotaFailure, and was seen without an ErrorInfo.
    """
    metadata: dict[str, str] = error.metadata or {}
    named = re.search(r"Quota limit '([^']+)' has been exceeded", message)
    limit = metadata.get("quota_limit", "") or (named[1] if named else "")
    if limit:
        return "PerMinute" not in limit and not _retry_after_s(error)
    details: list[Any] = list(error.details or [])
    return any("QuotaFailure" in str(detail) for detail in details) and not _retry_after_s(error)


def _retry_after_s(error: Any) -> float:
    """Seconds that the server asks to wait; 0 where it gives a date, since clocks differ."""
    response: Any = error.response
    header = str(response.headers.get("Retry-After", "")) if response is not None else ""
    return float(header) if header.isdecimal() else 0.0
