"""The Cloud TPU API as our resources use it: Google's client, its endpoint, retries, its errors as one sentence.

Owns which calls there are and which failures are worth another try. Refuses to own what a call means for a resource
(queued_resource.py, slice_ready.py, tpu_cleanup.py). Google's client is imported by the first call: it costs 0.8 s, and
a preview of what is not there yet makes none. Not run against Google's own service.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import re
import threading
import uuid
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra.providers.resource import Context, ResourceError, Service
from infra.targets.tpu_vm.provider.tpu_ownership import tail

ENDPOINT = "SLIPWAY_TPU_ENDPOINT"  # another server: http://127.0.0.1:<port> of an emulator
HOST = "tpu.googleapis.com"
CALL_TIMEOUT_S = 30.0
RETRY_FOR_S = 300.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 30.0
_CANCEL_POLL_S = 0.05
_TRANSIENT = (429, 500, 502, 503, 504)
_CLOSED = "LOCATION_POLICY_VIOLATED"
_LOGIN = "run `gcloud auth application-default login`"
ALL_ZONES = "-"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class GoneError(ResourceError):
    """There is no such request or node."""


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


@dataclass(frozen=True)
class Operation:
    """Of a create, an update or a delete. `code` is google.rpc's, 0 where all is well."""

    name: str
    done: bool
    code: int = 0
    message: str = ""


@dataclass(frozen=True)
class _Judged:
    """What a failure of a call is, and whether another try may help."""

    error: ResourceError
    again: bool = False
    after_s: float = 0.0


class _UnreadableError(Exception):
    """An answer with status 200 that says nothing."""


def service() -> Service:
    """Who answers these calls."""
    return Service(HOST, ENDPOINT, os.environ.get(ENDPOINT, ""))


@cache
def types() -> Any:
    """google.cloud.tpu_v2."""
    return importlib.import_module("google.cloud.tpu_v2")


# --- calls ---


def create(
    context: Context, parent: str, identifier: str, body: Any, request_id: str, version: str = "v2"
) -> Operation:
    """Ask for a queued resource; a repeated call with the same request id is one. Raises ThereAlreadyError.

    body: as the API's JSON of that version; v2alpha1 has flex-start, which v2 and Google's client have no fields for.
    """
    query = {"queuedResourceId": identifier, "requestId": request_id}
    path = f"{parent}/queuedResources"
    return _operate(context, f"create {path}/{identifier}", "POST", path, query, body, version)


def as_json(body: Mapping[str, Any]) -> dict[str, Any]:
    """A QueuedResource in the client's own words as the API's JSON of v2."""
    json_format: Any = importlib.import_module("google.protobuf.json_format")
    return json_format.MessageToDict(types().QueuedResource.pb(types().QueuedResource(body)))


def get(context: Context, name: str) -> Any | None:
    """The queued resource, or None."""
    try:
        return _call(context, f"read {name}", lambda: _named(_google("get_queued_resource", name=name), name))
    except GoneError:
        return None


def delete(context: Context, name: str) -> None:
    """Begin to delete, nodes included. What is gone or being deleted already is fine."""
    query = {"force": "true", "requestId": str(uuid.uuid4())}
    with contextlib.suppress(GoneError, BusyError):
        _operate(context, f"delete {name}", "DELETE", name, query)


def listed(context: Context, parent: str) -> list[Any]:
    """All queued resources of a zone. An empty answer and an answer that says nothing read the same: ask twice."""
    return _pages(
        context, f"list the queued resources of {parent}", "list_queued_resources", "queued_resources", parent
    )


def nodes(context: Context, parent: str) -> list[Any]:
    """All nodes of a zone; see `listed`."""
    return _pages(context, f"list the nodes of {parent}", "list_nodes", "nodes", parent)


def update_node(context: Context, node: Mapping[str, Any], fields: list[str]) -> Operation:
    """Change labels, tags, metadata or description of a node in place. Raises BusyError beside another update."""
    name = str(node["name"])
    return _operate(context, f"update {name}", "PATCH", name, {"updateMask": ",".join(fields)}, node)


def delete_node(context: Context, name: str) -> None:
    """Begin to delete a node that no request owns. What is gone or being deleted already is fine."""
    with contextlib.suppress(GoneError, BusyError):
        _operate(context, f"delete {name}", "DELETE", name)


def operation(context: Context, name: str) -> Operation | None:
    """How an operation stands, or None where it is forgotten."""
    try:
        return _operate(context, f"read {name}", "GET", name)
    except GoneError:
        return None


def guest_attributes(context: Context, node: str, path: str) -> list[str]:
    """Values that the node's hosts have written below the path, `namespace/key`; hosts that wrote none are left out."""
    request = types().GetGuestAttributesRequest(name=node, query_path=path)
    doing = f"read the guest attributes of {node}"
    try:
        found = _call(context, doing, lambda: _google("get_guest_attributes", request=request).guest_attributes)
    except GoneError:
        return []
    return [str(item.value) for host in found for item in host.query_value.items]


# --- how a call is made ---


def _google(method: str, *request: Any, **arguments: Any) -> Any:
    client = _client(service().instead)
    return getattr(client, method)(*request, retry=None, timeout=CALL_TIMEOUT_S, **arguments)


@cache
def _session(endpoint: str) -> Any:
    if endpoint.startswith("http://127."):
        return importlib.import_module("requests").Session()
    credentials, _ = importlib.import_module("google.auth").default(scopes=[_SCOPE])
    return importlib.import_module("google.auth.transport.requests").AuthorizedSession(credentials)


@cache
def _client(endpoint: str) -> Any:
    options: dict[str, Any] = {"transport": "rest"}
    if endpoint:
        options["client_options"] = {"api_endpoint": endpoint}
    if endpoint.startswith("http://127."):
        credentials: Any = importlib.import_module("google.auth.credentials")
        options["credentials"] = credentials.AnonymousCredentials()
    return types().TpuClient(**options)


def _operate(
    context: Context,
    doing: str,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: Any = None,
    version: str = "v2",
) -> Operation:
    """A call that answers with an operation, over Google's credentials and HTTP but not its client.

    Client 1.28 cannot read an operation whose response has a field that it does not know, and nodes of the service were
    seen with some (`useTpuVm`, `bootDisk`): only name, done and error are read here.
    """

    def act() -> Operation:
        instead = service().instead
        url = f"{instead or f'https://{HOST}'}/{version}/{path}"
        answer = _session(instead).request(method, url, params=query, json=body, timeout=CALL_TIMEOUT_S)
        if not answer.ok:
            raise importlib.import_module("google.api_core.exceptions").from_http_response(answer)
        return _operation(answer)

    return _call(context, doing, act)


def _operation(answer: Any) -> Operation:
    try:
        values: Any = answer.json()
        error: Mapping[str, Any] = values.get("error") or {}
        return Operation(
            str(values["name"]), bool(values.get("done")), int(error.get("code", 0)), str(error.get("message", ""))
        )
    except (ValueError, AttributeError, KeyError, TypeError):
        raise _UnreadableError from None


def _named(found: Any, name: str) -> Any:
    if tail(found.name) != tail(name):
        raise _UnreadableError
    return found


def _pages(context: Context, doing: str, method: str, field: str, parent: str) -> list[Any]:
    def act() -> list[Any]:
        found: list[Any] = []
        unreachable: list[str] = []
        for page in _google(method, parent=parent).pages:
            found += getattr(page, field)
            unreachable += page.unreachable
        if unreachable:
            raise ResourceError(f"cannot {doing}: {', '.join(unreachable)} cannot be reached; run it again later")
        return found

    return _call(context, doing, act)


def _call[T](context: Context, doing: str, act: Callable[[], T]) -> T:
    """Act, and again where that may help, until RETRY_FOR_S, the deadline or Ctrl-C. Raises ResourceError."""
    backoff: Any = importlib.import_module("google.api_core.retry.retry_base")
    delays = backoff.exponential_sleep_generator(_FIRST_DELAY_S, _LONGEST_DELAY_S)
    until = context.now() + RETRY_FOR_S
    while True:
        context.wait(0)
        future = _started(act)
        while not _is_done(future):
            context.wait(0)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, ResourceError):
            raise error
        judged = _judge(doing, error)
        pause = judged.after_s + next(delays)
        if not judged.again or context.now() + pause > until:
            raise judged.error from None
        context.wait(pause)


def _started[T](act: Callable[[], T]) -> Future[T]:
    """In a thread of its own: Ctrl-C does not wait for a server that is silent."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - handed to the caller as it is
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _is_done(future: Future[Any]) -> bool:
    try:
        future.exception(timeout=_CANCEL_POLL_S)
    except TimeoutError:
        return future.done()
    return True


# --- what a failure is ---


def _judge(doing: str, error: BaseException) -> _Judged:
    """Raises what is no failure of a call but a fault of ours."""
    google: Any = importlib.import_module("google.api_core.exceptions")
    auth: Any = importlib.import_module("google.auth.exceptions")
    http: Any = importlib.import_module("requests.exceptions")
    protobuf: Any = importlib.import_module("google.protobuf.json_format")
    if isinstance(error, google.GoogleAPICallError):
        return _judge_refusal(doing, error)
    if isinstance(error, auth.TransportError | http.RequestException | google.RetryError):
        kind = "in time" if isinstance(error, http.Timeout) else f"({type(error).__name__})"
        return _Judged(SilentError(f"cannot {doing}: the TPU API does not answer {kind}; run it again"), again=True)
    if isinstance(error, _UnreadableError | protobuf.ParseError):
        sentence = (
            f"cannot {doing}: the answer is not one of the TPU API; look at proxies in between "
            f"(HTTPS_PROXY, {ENDPOINT}), then run it again"
        )
        return _Judged(SilentError(sentence), again=True)
    if isinstance(error, auth.GoogleAuthError):
        return _Judged(ResourceError(f"cannot {doing}: no valid Google credentials on this machine; {_LOGIN}"))
    raise error


def _judge_refusal(doing: str, error: Any) -> _Judged:
    code, status, message = int(error.code or 0), _status(error), _message(error)
    said = f"cannot {doing}: {message}"
    if code == 404:
        return _Judged(GoneError(f"cannot {doing}: it is not there"))
    if code == 409 and status != "ABORTED" and error.reason != "OPERATION_IN_PROGRESS":
        return _Judged(ThereAlreadyError(f"cannot {doing}: the id is taken"))
    if code == 409 or status == "FAILED_PRECONDITION":
        return _Judged(BusyError(f"{said} ({status}); run it again once that has ended"))
    if code == 401:
        return _Judged(ResourceError(f"{said}; {_LOGIN}"))
    if code == 403 and (error.reason == _CLOSED or _CLOSED in message):
        return _Judged(ClosedError(f"{said} Give another zone"))
    if code == 400 and re.search(r"accelerator.* not found in zone", message, re.IGNORECASE):
        return _Judged(FullError(f"{said} Give another zone, or an accelerator that this one has"))
    if code == 403:
        return _Judged(ResourceError(f"{said}; have it granted (roles/tpu.admin), or {_LOGIN} as who has it"))
    if code == 429 and _is_quota(error, message):
        return _Judged(FullError(f"{said} Ask for more in the console (IAM, Quotas) or give another zone"))
    if code in _TRANSIENT:
        again = SilentError if code >= 500 else ResourceError
        return _Judged(again(f"{said} ({code}); run it again"), again=True, after_s=_retry_after_s(error))
    return _Judged(ResourceError(f"{said} ({code} {status}); mend the stack file and run it again"))


def _status(error: Any) -> str:
    """google.rpc's code by name, which over REST is only in the body: a 409 is ALREADY_EXISTS or ABORTED."""
    try:
        return str(error.response.json()["error"]["status"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _message(error: Any) -> str:
    """Without the `POST https://...: ` that Google's client puts before it."""
    return re.sub(r"^[A-Z]+ \S+: ", "", str(error.message)).strip() or "no reason is given"


def _is_quota(error: Any, message: str) -> bool:
    """Whether a 429 is about chips; else it is about calls per minute, and waiting helps.

    The service names the limit in the sentence and in a QuotaFailure, and was seen without an ErrorInfo.
    """
    metadata: dict[str, str] = error.metadata or {}
    named = re.search(r"Quota limit '([^']+)' has been exceeded", message)
    limit = metadata.get("quota_limit", "") or (named[1] if named else "")
    if limit:
        return "PerMinute" not in limit and not _retry_after_s(error)
    details: list[Any] = list(error.details or [])
    return any("QuotaFailure" in str(detail) for detail in details) and not _retry_after_s(error)


def _retry_after_s(error: Any) -> float:
    """Seconds; a date there is as good as nothing, since clocks differ."""
    response: Any = error.response
    given = str(response.headers.get("Retry-After", "")) if response is not None else ""
    return min(float(given), _LONGEST_DELAY_S * 10) if given.isdecimal() else 0.0


def polls(longest_s: float = 5.0) -> Generator[float]:
    """Pauses between two looks at something that takes seconds, or minutes."""
    seconds = 0.5
    while True:
        yield jittered(seconds)
        seconds = min(2 * seconds, longest_s)


def jittered(seconds: float) -> float:
    """A little longer than asked for, so that many do not come at once."""
    return seconds * random.uniform(1.0, 1.25)  # noqa: S311 - not a secret
