"""The calls of the Cloud TPU API that our resources make.

Owns which calls there are and what only this API says. Refuses to own what a call means for a resource
(tpu_request.py, slice_ready_resource.py, tpu_cleanup.py), and retries and errors, which are the same for every API of
Google (infra/google_cloud/). Not run against Google's own service.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra import emulated
from infra.google_cloud import retries
from infra.google_cloud.api import CALL_TIMEOUT_S, GoogleApi, client_arguments
from infra.google_cloud.api_errors import BusyError, FullError, GoneError, UnreadableError
from infra.providers.resource import Context, ResourceError
from infra.targets.tpu_vm.provider.tpu_ownership import tail

ALL_ZONES = "-"


def _unknown_accelerator(code: int, message: str, sentence: str) -> ResourceError | None:
    if code == 400 and re.search(r"accelerator.* not found in zone", message, re.IGNORECASE):
        return FullError(f"{sentence} Give another zone, or an accelerator that this one has")
    return None


API = GoogleApi("the TPU API", "tpu.googleapis.com", emulated.TPU, "roles/tpu.admin", _unknown_accelerator)


@dataclass(frozen=True)
class TpuOperation:
    """Of a create, an update or a delete. `code` is google.rpc's, 0 where all is well."""

    name: str
    done: bool
    code: int = 0
    message: str = ""


@cache
def types() -> Any:
    """google.cloud.tpu_v2."""
    return importlib.import_module("google.cloud.tpu_v2")


# --- calls ---


def create(
    context: Context, parent: str, identifier: str, body: Any, request_id: str, version: str = "v2"
) -> TpuOperation:
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
    with contextlib.suppress(GoneError):
        return retries.call(
            context, API, f"read {name}", lambda: _named(_google("get_queued_resource", name=name), name)
        )
    return None


def delete(context: Context, name: str) -> None:
    """Begin to delete a request with its nodes, or a node. What is gone or being deleted already is fine."""
    query = {} if "/nodes/" in name else {"force": "true", "requestId": str(uuid.uuid4())}
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


def update_node(context: Context, node: Mapping[str, Any], fields: list[str]) -> TpuOperation:
    """Change labels, tags, metadata or description of a node in place. Raises BusyError beside another update."""
    name = str(node["name"])
    return _operate(context, f"update {name}", "PATCH", name, {"updateMask": ",".join(fields)}, node)


def operation(context: Context, name: str) -> TpuOperation | None:
    """How an operation stands, or None where it is forgotten."""
    with contextlib.suppress(GoneError):
        return _operate(context, f"read {name}", "GET", name)
    return None


def guest_attributes(context: Context, node: str, path: str) -> list[str]:
    """What each of the node's hosts has written at the path, `namespace/key`, in their order; '' is nothing yet."""
    request = types().GetGuestAttributesRequest(name=node, query_path=path)
    doing = f"read the guest attributes of {node}"
    try:
        hosts: Any = retries.call(
            context, API, doing, lambda: _google("get_guest_attributes", request=request).guest_attributes
        )
    except GoneError:
        return []
    return ["".join(str(item.value) for item in host.query_value.items) for host in hosts]


# --- how a call is made ---


def _google(method: str, *request: Any, **arguments: Any) -> Any:
    client = _client(API.service.instead)
    return getattr(client, method)(*request, retry=None, timeout=CALL_TIMEOUT_S, **arguments)


@cache
def _client(instead: str) -> Any:
    return types().TpuClient(**client_arguments(instead))


def _operate(
    context: Context,
    doing: str,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: Any = None,
    version: str = "v2",
) -> TpuOperation:
    """A call that answers with an operation, over Google's credentials and HTTP but not its client.

    Client 1.28 cannot read an operation whose response has a field that it does not know, and nodes of the service were
    seen with some (`useTpuVm`, `bootDisk`): only name, done and error are read here.
    """
    return retries.call(context, API, doing, lambda: _operation(API.send(method, f"{version}/{path}", query, body)))


def _operation(response: Any) -> TpuOperation:
    try:
        values: Any = response.json()
        error: Mapping[str, Any] = values.get("error") or {}
        return TpuOperation(
            str(values["name"]), bool(values.get("done")), int(error.get("code", 0)), str(error.get("message", ""))
        )
    except (ValueError, AttributeError, KeyError, TypeError):
        raise UnreadableError from None


def _named(resource: Any, name: str) -> Any:
    if tail(resource.name) != tail(name):
        raise UnreadableError
    return resource


def _pages(context: Context, doing: str, method: str, field: str, parent: str) -> list[Any]:
    def act() -> list[Any]:
        items: list[Any] = []
        unreachable: list[str] = []
        for page in _google(method, parent=parent).pages:
            items += getattr(page, field)
            unreachable += page.unreachable
        if unreachable:
            raise ResourceError(f"cannot {doing}: {', '.join(unreachable)} cannot be reached; run it again later")
        return items

    return retries.call(context, API, doing, act)
