"""Fields that the messages of Google's client (google-cloud-tpu 1.28, v2) lack: JSON next to those messages.

Owns the names of these fields, and what v2alpha1 spells otherwise than v2. Refuses to own what they mean (checks.py,
transitions.py) and what both versions share (messages.py).

Names are those of gcloud's own generated clients (528.0.0, tpu v2 and v2alpha1), read 2026-11-21. Seen in answers of
the real service: an ACTIVE request's node has `bootDisk: {}` and `useTpuVm: true`. Our choice: that they are there only
then; that runDuration gains its terminationTime with ACTIVE; that fields of a node alone are taken and forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from infra.emulators.tpu_api import messages
from infra.emulators.tpu_api.records import Extras, Node, Request, RequestState

V2, V2ALPHA1 = "v2", "v2alpha1"
_OF_REQUEST = ("provisioningModel", "runDuration", "bestEffort", "trafficConfig")
_OF_NODE = ("autocheckpointEnabled", "bootDiskConfig", "upcomingMaintenance")
_OF_SCHEDULING = ("provisioningModel", "reservationName", "terminationTimestamp")
_TIERS = {"SPOT": "spot", "RESERVATION_BOUND": "reserved"}  # a node's provisioningModel, in v2's words
_API_VERSIONS = {V2: V2ALPHA1, "V2": "V2_ALPHA1", 4: 3}  # of an operation; Node.ApiVersion by name and by number


def taken_from(values: Any) -> tuple[Any, Extras]:
    """The JSON of a v2alpha1 queued resource as one of v2, and what v2 has no room for."""
    request, extras = _copy(values), Extras()
    if request is None:
        return values, extras
    extras.request = _take(request, _OF_REQUEST)
    if guaranteed := _copy(request.get("guaranteed")):
        extras.guaranteed = _take(guaranteed, ("reserved",))
        request["guaranteed"] = guaranteed
    tpu = _copy(request.get("tpu"))
    if tpu and _is_list(specs := tpu.get("nodeSpec")):
        request["tpu"] = {**tpu, "nodeSpec": [_spec_without(spec, extras) for spec in specs]}
    return request, extras


def _spec_without(values: Any, extras: Extras) -> Any:
    spec = _copy(values)
    if spec is None:
        return values
    if slices := _copy(spec.pop("multiNodeParams", None)):
        extras.slices = _take(slices, ("workloadType",))
        spec["multisliceParams"] = slices
    if "node" in spec:
        spec["node"], extras.node, extras.scheduling = node_taken_from(spec["node"])
    return spec


def node_taken_from(values: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The JSON of a v2alpha1 node as one of v2, and what v2 has no room for: in it, in its schedulingConfig."""
    node, of_scheduling = _copy(values), dict[str, Any]()
    if node is None:
        return values, {}, of_scheduling
    of_node = _take(node, _OF_NODE)
    if scheduling := _copy(node.get("schedulingConfig")):
        of_scheduling = _take(scheduling, _OF_SCHEDULING)
        if tier := _TIERS.get(of_scheduling.get("provisioningModel", "")):
            scheduling[tier] = True
        node["schedulingConfig"] = scheduling
    if _is_list(disks := node.get("dataDisks")):
        node["dataDisks"] = [
            {key: disk[key] for key in disk if key != "workerIds"} if _is_object(disk) else disk for disk in disks
        ]
    return node, of_node, of_scheduling


def _copy(values: Any) -> dict[str, Any] | None:
    """A copy of a JSON object, or None where the value is none: messages.parse refuses that later."""
    return dict(values) if _is_object(values) else None


def _is_object(values: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(values, dict)


def _is_list(values: Any) -> TypeGuard[list[Any]]:
    return isinstance(values, list)


def _take(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Removes these keys from `values` and returns them."""
    return {name: values.pop(name) for name in names if name in values}


# --- in answers ---


@dataclass(frozen=True)
class Shown:
    """Adds to an answer's JSON the fields of requests and nodes that v2's messages lack, spelled as in `version`."""

    version: str
    requests: Mapping[str, Request]
    nodes: Mapping[str, Node]
    in_operations: bool

    def add(self, values: Any) -> Any:
        if _is_list(values):
            return [self.add(value) for value in values]
        shown = _copy(values)
        if shown is None:
            return values
        below = self if self.in_operations else replace(self, requests={}, nodes={})
        for key, value in shown.items():
            if key not in ("labels", "metadata") or "@type" in value:
                shown[key] = (below if key == "response" else self).add(value)
        name = shown.get("name", "")
        if name in self.requests and "tpu" in shown:
            _add_to_request(shown, self.version, self.requests[name])
        elif name in self.nodes and "acceleratorType" in shown and self.nodes[name].maintenance:
            shown["upcomingMaintenance"] = self.nodes[name].maintenance
        if self.version == V2ALPHA1:
            _respell(shown)
        return shown


def _add_to_request(shown: dict[str, Any], version: str, request: Request) -> None:
    (spec,) = shown["tpu"]["nodeSpec"]
    if request.state is RequestState.ACTIVE:
        spec["node"] |= {"bootDisk": {}, "useTpuVm": True}
    if version != V2ALPHA1:
        return
    extras = request.extras
    shown |= extras.request
    if extras.guaranteed:
        shown["guaranteed"] = {**shown.get("guaranteed", {}), **extras.guaranteed}
    if extras.slices and "multiNodeParams" in spec:
        spec["multiNodeParams"] |= extras.slices
    spec["node"] |= extras.node
    if extras.scheduling:
        spec["node"]["schedulingConfig"] = {**spec["node"].get("schedulingConfig", {}), **extras.scheduling}
    if request.runs_for_s is not None and request.state is RequestState.ACTIVE and request.due_s is not None:
        shown["runDuration"] = {**shown.get("runDuration", {}), "terminationTime": messages.time_text(request.due_s)}


def _respell(shown: dict[str, Any]) -> None:
    if "multisliceParams" in shown:
        shown["multiNodeParams"] = shown.pop("multisliceParams")
    if "@type" in shown:
        shown["@type"] = shown["@type"].replace("google.cloud.tpu.v2.", "google.cloud.tpu.v2alpha1.")
    version = shown.get("apiVersion")
    if version in _API_VERSIONS:
        shown["apiVersion"] = _API_VERSIONS[version]
