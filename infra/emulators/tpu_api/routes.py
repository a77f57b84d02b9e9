"""Which HTTP request is which call, and its parts as one request message.

Owns the table of calls (a test compares it with the client's own) and how path, query and body fill a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote

from infra.emulators.tpu_api import extras, messages
from infra.emulators.tpu_api.errors import ApiError, Code
from infra.emulators.tpu_api.extras import V2, V2ALPHA1
from infra.emulators.tpu_api.records import Extras
from infra.emulators.tpu_api.service import Service

# Of every Google API: https://cloud.google.com/apis/docs/system-parameters
_SYSTEM = {
    *("alt", "key", "fields", "prettyPrint", "quotaUser", "access_token", "oauth_token", "callback"),
    *("uploadType", "upload_protocol"),
}


@dataclass(frozen=True)
class Route:
    """A call: its HTTP form as the client has it, and whether it answers with an operation."""

    rpc: str
    method: str
    uri: str  # with {field=pattern}
    body: str  # the field that the body is, "*" all of the request, "" none
    call: Callable[..., Any]
    makes_operation: bool = False
    package: str = ""  # of its request message, with a dot; "" is the client's own

    @property
    def request(self) -> str:
        """The kind of its request message."""
        return f"{self.package}{self.rpc}Request"

    @property
    def verb(self) -> str:
        """The verb of its operation."""
        return re.sub(r"(?<!^)[A-Z].*", "", self.rpc).lower()

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """The field in the path and its value, or None where the call is another."""
        if method != self.method:
            return None
        field, pattern = _template(self.uri)
        match = pattern.fullmatch(path)
        return {field: unquote(match[1])} if match else None


@cache
def _template(uri: str) -> tuple[str, re.Pattern[str]]:
    """The field and the pattern of a path."""
    before, field, pattern, after = re.findall(r"(.*){(.*?)=(.*)}(.*)", uri)[0]
    return field, re.compile(f"{re.escape(before)}({pattern.replace('*', '[^/:]+')}){re.escape(after)}")


_ZONE = "projects/*/locations/*"
_OPERATIONS = "google.longrunning."
_LOCATIONS = "google.cloud.location."

ROUTES: tuple[Route, ...] = (
    Route("CreateQueuedResource", "POST", f"/v2/{{parent={_ZONE}}}/queuedResources", "queued_resource",
          Service.create_queued_resource, makes_operation=True),
    Route("GetQueuedResource", "GET", f"/v2/{{name={_ZONE}/queuedResources/*}}", "", Service.get_queued_resource),
    Route("ListQueuedResources", "GET", f"/v2/{{parent={_ZONE}}}/queuedResources", "", Service.list_queued_resources),
    Route("DeleteQueuedResource", "DELETE", f"/v2/{{name={_ZONE}/queuedResources/*}}", "",
          Service.delete_queued_resource, makes_operation=True),
    Route("ResetQueuedResource", "POST", f"/v2/{{name={_ZONE}/queuedResources/*}}:reset", "*",
          Service.reset_queued_resource, makes_operation=True),
    Route("CreateNode", "POST", f"/v2/{{parent={_ZONE}}}/nodes", "node", Service.create_node, makes_operation=True),
    Route("GetNode", "GET", f"/v2/{{name={_ZONE}/nodes/*}}", "", Service.get_node),
    Route("ListNodes", "GET", f"/v2/{{parent={_ZONE}}}/nodes", "", Service.list_nodes),
    Route("DeleteNode", "DELETE", f"/v2/{{name={_ZONE}/nodes/*}}", "", Service.delete_node, makes_operation=True),
    Route("UpdateNode", "PATCH", f"/v2/{{node.name={_ZONE}/nodes/*}}", "node",
          Service.update_node, makes_operation=True),
    Route("StartNode", "POST", f"/v2/{{name={_ZONE}/nodes/*}}:start", "*", Service.start_node, makes_operation=True),
    Route("StopNode", "POST", f"/v2/{{name={_ZONE}/nodes/*}}:stop", "*", Service.stop_node, makes_operation=True),
    Route("GetGuestAttributes", "POST", f"/v2/{{name={_ZONE}/nodes/*}}:getGuestAttributes", "*",
          Service.get_guest_attributes),
    Route("GetAcceleratorType", "GET", f"/v2/{{name={_ZONE}/acceleratorTypes/*}}", "", Service.get_accelerator_type),
    Route("ListAcceleratorTypes", "GET", f"/v2/{{parent={_ZONE}}}/acceleratorTypes", "",
          Service.list_accelerator_types),
    Route("GetRuntimeVersion", "GET", f"/v2/{{name={_ZONE}/runtimeVersions/*}}", "", Service.get_runtime_version),
    Route("ListRuntimeVersions", "GET", f"/v2/{{parent={_ZONE}}}/runtimeVersions", "", Service.list_runtime_versions),
    Route("GenerateServiceIdentity", "POST", f"/v2/{{parent={_ZONE}}}:generateServiceIdentity", "*",
          Service.generate_service_identity),
    Route("GetLocation", "GET", f"/v2/{{name={_ZONE}}}", "", Service.get_location, package=_LOCATIONS),
    Route("ListLocations", "GET", "/v2/{name=projects/*}/locations", "", Service.list_locations, package=_LOCATIONS),
    Route("GetOperation", "GET", f"/v2/{{name={_ZONE}/operations/*}}", "", Service.get_operation, package=_OPERATIONS),
    Route("ListOperations", "GET", f"/v2/{{name={_ZONE}}}/operations", "",
          Service.list_operations, package=_OPERATIONS),
    Route("DeleteOperation", "DELETE", f"/v2/{{name={_ZONE}/operations/*}}", "",
          Service.delete_operation, package=_OPERATIONS),
    Route("CancelOperation", "POST", f"/v2/{{name={_ZONE}/operations/*}}:cancel", "",
          Service.cancel_operation, package=_OPERATIONS),
)  # fmt: skip


def find(method: str, path: str) -> tuple[Route, dict[str, str], str] | None:
    """The call of a request, what its path says, and the API's version. v2alpha1 has the same calls as v2 and more."""
    version = V2ALPHA1 if path.startswith(f"/{V2ALPHA1}/") else V2
    path = path.replace(f"/{V2ALPHA1}/", f"/{V2}/", 1)
    for route in ROUTES:
        if (fields := route.match(method, path)) is not None:
            return route, fields, version
    return None


def without_extras(route: Route, body: Any, version: str) -> tuple[Any, Extras | None]:
    """A body as v2 has it, and the fields of a new queued resource that v2 lacks. Those of a node are dropped."""
    if version == V2ALPHA1 and route.body == "queued_resource":
        return extras.taken_from(body)
    if version == V2ALPHA1 and route.body == "node":
        return extras.node_taken_from(body)[0], None
    return body, None


def request_message(route: Route, fields: dict[str, str], query: str, body: Any) -> Any:
    """All parts as the call's request. Raises ApiError for whatever the client's descriptors do not know."""
    if route.body == "*":
        request = messages.parse(route.request, body or {})
    else:
        request = messages.parse(route.request, {route.body: body} if route.body and body is not None else {})
        if body and not route.body:
            raise ApiError(Code.INVALID_ARGUMENT, f"{route.rpc} takes no body.", "INVALID_PAYLOAD")
    for name, values in parse_qs(query, keep_blank_values=True).items():
        if not name.startswith("$") and name not in _SYSTEM:
            messages.set_query(request, name, values)
    for name, value in fields.items():
        messages.set_query(request, name, [value])
    return request


def wants_numeric_enums(query: str) -> bool:
    """`$alt=json;enum-encoding=int`, which the client sends with every call."""
    return any("enum-encoding=int" in value for value in parse_qs(query).get("$alt", []))
