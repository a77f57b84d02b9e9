"""The calls of the API: a request message in, a response message out.

Owns what each call means for the cloud, pages, filters that are refused. Refuses to own HTTP (server.py, routes.py) and
what happens after the call (cloud.py).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from infra.emulators.tpu_api import checks, errors, messages, views
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.cloud import Cloud
from infra.emulators.tpu_api.errors import ApiError, Code, RpcStatus
from infra.emulators.tpu_api.records import Extras, Hidden, Operation

_DEFAULT_PAGE = 50  # our choice
ALL_ZONES = "-"  # as `gcloud ... list --zone=-` asks


class Service:
    """`max_page` caps the size of every page, whatever a client asks for."""

    def __init__(self, cloud: Cloud, max_page: int = 1000) -> None:
        self.cloud, self.ledger = cloud, cloud.ledger
        self.max_page = max_page
        self.unreachable: set[str] = set()  # zones that a list of all zones cannot reach

    def check_location(self, name: str) -> None:
        """Refuses every call in a zone that does not exist or is closed; `name` is a call's parent or name."""
        if "/locations/" not in name:
            return
        place = Place.of(name)
        is_open = place.zone in checks.zones() and not self.ledger.pools.is_closed(place.zone)
        if place.zone != ALL_ZONES and not is_open:
            raise errors.no_such_location(checks.project_number(place.project), place.zone)

    # --- queued resources ---

    def create_queued_resource(self, request: Any, extras: Extras | None = None) -> Any:
        place = Place.of(request.parent)
        checks.check_request_id(request.request_id)
        if request.queued_resource_id:
            checks.check_id("queued_resource_id", request.queued_resource_id)
        return self._once(
            request,
            "CreateQueuedResource",
            lambda: self.cloud.create_request(place, request.queued_resource_id, request.queued_resource, extras),
        )

    def get_queued_resource(self, request: Any) -> Any:
        return self.ledger.request_view(self.cloud.request(request.name, Hidden.GET))

    def list_queued_resources(self, request: Any) -> Any:
        below = self._below(request.parent, "queuedResources", self.ledger.requests)
        shown = [queued for queued in below if not self.cloud.is_hidden(queued, Hidden.LIST)]
        return self._page(request, "ListQueuedResourcesResponse", "queued_resources", shown, self.ledger.request_view)

    def delete_queued_resource(self, request: Any) -> Any:
        checks.check_request_id(request.request_id)
        return self._once(
            request, "DeleteQueuedResource", lambda: self.cloud.delete_request(request.name, request.force)
        )

    def reset_queued_resource(self, request: Any) -> Any:
        return self._shown(self.cloud.reset_request(request.name))

    # --- nodes ---

    def create_node(self, request: Any) -> Any:
        place = Place.of(request.parent)
        checks.check_id("node_id", request.node_id)
        row = checks.check_node(place, request.node)
        return self._shown(self.cloud.create_node(place, request.node_id, row, request.node))

    def get_node(self, request: Any) -> Any:
        return self.ledger.node_view(self.cloud.node(request.name))

    def list_nodes(self, request: Any) -> Any:
        nodes = self._below(request.parent, "nodes", self.ledger.nodes)
        return self._page(request, "ListNodesResponse", "nodes", nodes, self.ledger.node_view)

    def delete_node(self, request: Any) -> Any:
        return self._shown(self.cloud.delete_node(request.name))

    def update_node(self, request: Any) -> Any:
        paths = list(request.update_mask.paths)
        checks.check_mask(paths)
        checks.check_mutable(request.node)
        return self._shown(self.cloud.patch_node(request.node.name, request.node, paths))

    def start_node(self, request: Any) -> Any:
        return self._shown(self.cloud.switch_node(request.name, on=True))

    def stop_node(self, request: Any) -> Any:
        return self._shown(self.cloud.switch_node(request.name, on=False))

    def get_guest_attributes(self, request: Any) -> Any:
        """One entry per worker in their order, empty where it has published nothing (our choice)."""
        node = self.cloud.node(request.name)
        every = [str(worker) for worker in range(len(node.hosts))]
        workers = [worker for worker in request.worker_ids if worker] or every  # gcloud asks for all with one ""
        path = [part for part in request.query_path.split("/") if part]
        response = messages.new("GetGuestAttributesResponse")
        for worker in workers:
            if not worker.isdecimal() or int(worker) >= len(node.hosts):
                raise checks.invalid("worker_ids", f"{worker!r} is not a worker of a node with {len(node.hosts)}")
            entry = response.guest_attributes.add(query_path=request.query_path)
            entry.query_value.SetInParent()
            for attribute in self.cloud.levers.guest_attributes(node, int(worker)):
                if [attribute.namespace, attribute.key][: len(path)] == path:
                    entry.query_value.items.add(namespace=attribute.namespace, key=attribute.key, value=attribute.value)
        silent = not any(len(entry.query_value.items) for entry in response.guest_attributes)
        if silent and self.ledger.behaviour.silent_hosts_are_404:
            raise errors.not_found(f"{request.name}/guestAttributes/{request.query_path}")
        return response

    # --- what there is ---

    def get_accelerator_type(self, request: Any) -> Any:
        return self._one(request.name, self._accelerator_types)

    def list_accelerator_types(self, request: Any) -> Any:
        types = self._accelerator_types(Place.of(request.parent))
        return self._page(request, "ListAcceleratorTypesResponse", "accelerator_types", types)

    def get_runtime_version(self, request: Any) -> Any:
        return self._one(request.name, self._runtime_versions)

    def list_runtime_versions(self, request: Any) -> Any:
        versions = self._runtime_versions(Place.of(request.parent))
        return self._page(request, "ListRuntimeVersionsResponse", "runtime_versions", versions)

    def get_location(self, request: Any) -> Any:
        return _location(Place.of(request.name))

    def list_locations(self, request: Any) -> Any:
        project = request.name.split("/")[1]
        places = [Place(project, zone) for zone in checks.zones()]
        return self._page(request, "google.cloud.location.ListLocationsResponse", "locations", places, _location)

    def generate_service_identity(self, request: Any) -> Any:
        place = Place.of(request.parent)
        response = messages.new("GenerateServiceIdentityResponse")
        response.identity.email = f"service-{checks.project_number(place.project)}@cloud-tpu.iam.gserviceaccount.com"
        return response

    # --- operations ---

    def get_operation(self, request: Any) -> Any:
        return self._shown(self.ledger.operation(request.name))

    def list_operations(self, request: Any) -> Any:
        operations = self._below(request.name, "operations", self.ledger.operations)
        return self._page(request, "google.longrunning.ListOperationsResponse", "operations", operations, self._shown)

    def delete_operation(self, request: Any) -> Any:
        del self.ledger.operations[self.ledger.operation(request.name).name]
        return messages.new("google.protobuf.Empty")

    def cancel_operation(self, request: Any) -> Any:
        """Best effort, as its documentation says: here it only notes that it was asked for (our choice)."""
        self.ledger.operation(request.name).cancel_requested = True
        return messages.new("google.protobuf.Empty")

    # --- faults ---

    def refuse_in_operation(self, rpc: str, verb: str, request: Any, failure: RpcStatus) -> Any:
        """Does nothing and answers with an operation that failed; its request id is taken from now on (our choice)."""
        operation = self.ledger.new_operation(verb, _target(request))
        self.ledger.end_in_error(operation, failure)
        self.ledger.remember(rpc, getattr(request, "request_id", ""), _body(request), operation)
        return self._shown(operation)

    def end_in_error(self, shown: Any, failure: RpcStatus) -> Any:
        """The operation reports a failure, though what it did stays."""
        operation = self.ledger.operation(shown.name)
        self.ledger.end_in_error(operation, failure)
        return self._shown(operation)

    def hold(self, shown: Any, seconds: float) -> Any:
        """The operation is reported as done that many seconds later than its effect."""
        operation = self.ledger.operation(shown.name)
        operation.hold_until_s = self.ledger.now_s + seconds
        return self._shown(operation)

    # --- parts ---

    def _once(self, request: Any, rpc: str, act: Callable[[], Operation]) -> Any:
        """The same request id with the same request gives the same operation and does nothing."""
        body = _body(request)
        operation = self.ledger.remembered(rpc, request.request_id, body)
        if operation is None:
            operation = act()
            self.ledger.remember(rpc, request.request_id, body, operation)
        return self._shown(operation)

    def _shown(self, operation: Operation) -> Any:
        return views.operation(operation, self.ledger.now_s)

    def _below(self, parent: str, collection: str, things: dict[str, Any]) -> list[Any]:
        """The things of one zone or of all zones, sorted by name."""
        place = Place.of(parent)
        zone = re.escape(place.zone)
        if place.zone == ALL_ZONES:
            zone = "[^/]+"
        elif place.zone in self.unreachable:
            raise ApiError(Code.UNAVAILABLE, f"Zone {place.zone} is currently unreachable.")
        pattern = re.compile(rf"projects/{re.escape(place.project)}/locations/{zone}/{collection}/")
        names = sorted(name for name in things if pattern.match(name))
        return [things[name] for name in names if Place.of(name).zone not in self.unreachable]

    def _page(
        self,
        request: Any,
        kind: str,
        field: str,
        things: Sequence[Any],
        show: Callable[[Any], Any] = lambda thing: thing,
    ) -> Any:
        """The page after the token. A token holds the last name, so a deletion between two pages skips nothing.

        Filters and orders are refused: no source that we read says what they may hold.
        """
        if getattr(request, "filter", "") or getattr(request, "order_by", ""):
            raise ApiError(Code.UNIMPLEMENTED, "The emulator knows neither filters nor orders.")
        if request.page_size < 0:
            raise checks.invalid("page_size", "it is negative")
        try:
            after = base64.urlsafe_b64decode(request.page_token).decode()
        except ValueError as error:
            raise checks.invalid("page_token", f"{request.page_token!r} is not a token of this service") from error
        rest = [thing for thing in things if thing.name > after]
        size = min(request.page_size or _DEFAULT_PAGE, self.max_page)
        response = messages.new(kind)
        getattr(response, field).extend(show(thing) for thing in rest[:size])
        if len(rest) > size:
            response.next_page_token = base64.urlsafe_b64encode(rest[size - 1].name.encode()).decode()
        parent = getattr(request, "parent", None) or request.name
        if "unreachable" in response.DESCRIPTOR.fields_by_name and parent.endswith(f"/locations/{ALL_ZONES}"):
            project = parent.split("/")[1]
            response.unreachable.extend(f"projects/{project}/locations/{zone}" for zone in sorted(self.unreachable))
        return response

    def _one(self, name: str, things_of: Callable[[Place], Iterable[Any]]) -> Any:
        for thing in things_of(Place.of(name)):
            if thing.name == name:
                return thing
        raise errors.not_found(name)

    def _accelerator_types(self, place: Place) -> list[Any]:
        types: list[Any] = []
        for row in checks.offered():
            if place.zone in row.zones and not self.ledger.pools.lacks(place.zone, row):
                name = f"{place.name}/acceleratorTypes/{row.accelerator_type}"
                values: dict[str, Any] = {"name": name, "type": row.accelerator_type}
                if config := checks.config_type(row):
                    values["acceleratorConfigs"] = [{"type": config, "topology": row.topology_text}]
                types.append(messages.parse("AcceleratorType", values))
        return sorted(types, key=lambda accelerator_type: accelerator_type.name)

    def _runtime_versions(self, place: Place) -> list[Any]:
        return [
            messages.new("RuntimeVersion", name=f"{place.name}/runtimeVersions/{version}", version=version)
            for version in checks.runtime_versions()
        ]


def _body(request: Any) -> str:
    return json.dumps(messages.plain(request), sort_keys=True)


def _target(request: Any) -> str:
    """The name of what a call is about."""
    if hasattr(request, "queued_resource_id"):
        return f"{request.parent}/queuedResources/{request.queued_resource_id}"
    if hasattr(request, "node_id"):
        return f"{request.parent}/nodes/{request.node_id}"
    return request.name if hasattr(request, "name") else request.node.name


def _location(place: Place) -> Any:
    return messages.new("google.cloud.location.Location", name=place.name, location_id=place.zone)
