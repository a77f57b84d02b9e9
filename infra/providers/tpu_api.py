"""The Cloud TPU API as our resources use it: Google's client, its endpoint, its errors as one sentence.

Owns which calls there are. Refuses to own what they mean for a resource (queued_resource.py, slice_ready.py). Google's
client is imported by the first call: it costs 0.8 s, and a preview makes none. Not run against Google's own service.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from infra.providers.resource import ResourceError

ENDPOINT = "SLIPWAY_TPU_ENDPOINT"  # another server: http://127.0.0.1:<port> of an emulator
CALL_TIMEOUT_S = 30.0


class GoneError(ResourceError):
    """There is no such request or node."""


class ThereAlreadyError(ResourceError):
    """The id is taken."""


@cache
def types() -> Any:
    """google.cloud.tpu_v2."""
    return importlib.import_module("google.cloud.tpu_v2")


@cache
def _client() -> Any:
    endpoint = os.environ.get(ENDPOINT, "")
    options: dict[str, Any] = {"transport": "rest"}
    if endpoint:
        options["client_options"] = {"api_endpoint": endpoint}
    if endpoint.startswith("http://127."):
        credentials: Any = importlib.import_module("google.auth.credentials")
        options["credentials"] = credentials.AnonymousCredentials()
    try:
        return types().TpuClient(**options)
    except importlib.import_module("google.auth.exceptions").DefaultCredentialsError:
        raise ResourceError(
            "no Google credentials on this machine; run `gcloud auth application-default login`"
        ) from None


@contextmanager
def _one_sentence(doing: str) -> Generator[None]:
    errors: Any = importlib.import_module("google.api_core.exceptions")
    transport: Any = importlib.import_module("google.auth.exceptions")
    requests: Any = importlib.import_module("requests.exceptions")
    try:
        yield
    except errors.NotFound:
        raise GoneError(f"cannot {doing}: it is not there") from None
    except errors.AlreadyExists:
        raise ThereAlreadyError(f"cannot {doing}: the id is taken") from None
    except errors.GoogleAPICallError as error:
        raise ResourceError(f"cannot {doing}: {error.code} {error.message}; run it again") from None
    except (requests.RequestException, transport.TransportError, errors.RetryError) as error:
        raise ResourceError(f"cannot {doing}: the TPU API does not answer ({type(error).__name__})") from None


def create(parent: str, identifier: str, body: Mapping[str, Any], request_id: str) -> None:
    """Ask for a queued resource. Raises ThereAlreadyError where the id is taken."""
    request = types().CreateQueuedResourceRequest(
        parent=parent,
        queued_resource_id=identifier,
        queued_resource=types().QueuedResource(body),
        request_id=request_id,
    )
    with _one_sentence(f"create {parent}/queuedResources/{identifier}"):
        _client().create_queued_resource(request=request, timeout=CALL_TIMEOUT_S)


def get(name: str) -> Any | None:
    """The queued resource, or None."""
    try:
        with _one_sentence(f"read {name}"):
            return _client().get_queued_resource(name=name, timeout=CALL_TIMEOUT_S)
    except GoneError:
        return None


def delete(name: str, request_id: str) -> None:
    """Begin to delete, nodes included. What is gone already is fine."""
    request = types().DeleteQueuedResourceRequest(name=name, force=True, request_id=request_id)
    try:
        with _one_sentence(f"delete {name}"):
            _client().delete_queued_resource(request=request, timeout=CALL_TIMEOUT_S)
    except GoneError:
        return


def listed(parent: str) -> list[Any]:
    with _one_sentence(f"list the queued resources of {parent}"):
        return list(_client().list_queued_resources(parent=parent, timeout=CALL_TIMEOUT_S))


def nodes(parent: str) -> list[Any]:
    with _one_sentence(f"list the nodes of {parent}"):
        return list(_client().list_nodes(parent=parent, timeout=CALL_TIMEOUT_S))


def update_node(node: Mapping[str, Any], fields: list[str]) -> None:
    """Change labels, tags, metadata ... of a node in place."""
    mask: Any = importlib.import_module("google.protobuf.field_mask_pb2")
    with _one_sentence(f"update {node['name']}"):
        _client().update_node(node=types().Node(node), update_mask=mask.FieldMask(paths=fields), timeout=CALL_TIMEOUT_S)


def guest_attributes(node: str, path: str) -> list[str]:
    """Values that the node's hosts have written below the path, `namespace/key`; hosts that wrote none are left out."""
    request = types().GetGuestAttributesRequest(name=node, query_path=path)
    try:
        with _one_sentence(f"read the guest attributes of {node}"):
            found = _client().get_guest_attributes(request=request, timeout=CALL_TIMEOUT_S).guest_attributes
    except GoneError:
        return []
    return [str(item.value) for host in found for item in host.query_value.items]
