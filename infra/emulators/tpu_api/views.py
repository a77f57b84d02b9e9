"""Turns the emulator's records into the messages that a client is shown.

Seen (public reports, read 2026-11-21): the project's number in a request's parent and in a node's queuedResource, its
id in names; empty schedulingConfig and shieldedInstanceConfig in an ACTIVE request's node.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from infra.emulators.tpu_api import messages
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.records import Behaviour, Initiator, Node, NodeState, Operation, Request, RequestState


def request(request: Request, behaviour: Behaviour) -> Any:
    """A QueuedResource; its copy of the node is as it was at creation."""
    message = deepcopy(request.message)
    (spec,) = message.tpu.node_spec
    if behaviour.project_numbers:
        spec.parent = Place.of(request.name).numbered_name
    if request.state is RequestState.ACTIVE:
        spec.node.scheduling_config.SetInParent()
        spec.node.shielded_instance_config.SetInParent()
    message.state.state = _number(message.state, "state", request.state)
    data = f"{request.state.lower()}_data"  # WAITING_FOR_RESOURCES has none
    if data in message.state.DESCRIPTOR.fields_by_name:
        getattr(message.state, data).SetInParent()
    if request.failure and request.state is RequestState.FAILED:
        message.state.failed_data.error.code = request.failure.code
        message.state.failed_data.error.message = request.failure.message
    if request.initiator is not Initiator.NONE and request.state in (RequestState.SUSPENDING, RequestState.SUSPENDED):
        message.state.state_initiator = _number(message.state, "state_initiator", request.initiator)
    return message


def node(node: Node, behaviour: Behaviour) -> Any:
    message = deepcopy(node.message)
    if node.request and behaviour.project_numbers:
        place = Place.of(node.request)
        message.queued_resource = node.request.replace(place.name, place.numbered_name)
    message.state = _number(message, "state", node.state)
    message.health = _number(message, "health", node.health)
    message.health_description = node.health_description
    message.api_version = _number(message, "api_version", "V2")
    if node.state is NodeState.CREATING:
        del message.network_endpoints[:]  # our choice: addresses are known once it is up
    return message


def operation(operation: Operation, now_s: float) -> Any:
    """A google.longrunning.Operation with the client's OperationMetadata."""
    message = messages.new("google.longrunning.Operation", name=operation.name)
    metadata = messages.new("OperationMetadata", target=operation.target, verb=operation.verb, api_version="v2")
    metadata.cancel_requested = operation.cancel_requested
    messages.set_time(metadata.create_time, operation.create_s)
    if operation.is_done(now_s):
        message.done = True
        messages.set_time(metadata.end_time, max(operation.completed_s or 0, operation.hold_until_s))
        if operation.failure:
            message.error.code, message.error.message = operation.failure.code, operation.failure.message
        else:
            message.response.CopyFrom(messages.parse_any(operation.response))
    message.metadata.Pack(metadata)
    return message


def _number(message: Any, field: str, name: str) -> int:
    """The number of an enum's value, by its name. Raises KeyError if the client's descriptor has none."""
    return message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_name[name].number
