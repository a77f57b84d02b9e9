"""What is kept, as the messages that a client is shown. Owns nothing but that.

Seen (gcp.md section 9, read 2026-11-21): the project's number in a request's parent and in a node's queuedResource, its
id in names; empty schedulingConfig and shieldedInstanceConfig in an ACTIVE request's node.
"""

from __future__ import annotations

from typing import Any

from infra.emulators.tpu_api import messages
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.records import Behaviour, Initiator, Node, NodeState, Operation, Request, RequestState

# Which of QueuedResourceState's data goes with a state; WAITING_FOR_RESOURCES has none.
_STATE_DATA = {
    RequestState.CREATING: "creating_data",
    RequestState.ACCEPTED: "accepted_data",
    RequestState.PROVISIONING: "provisioning_data",
    RequestState.ACTIVE: "active_data",
    RequestState.FAILED: "failed_data",
    RequestState.SUSPENDING: "suspending_data",
    RequestState.SUSPENDED: "suspended_data",
    RequestState.DELETING: "deleting_data",
}


def request(kept: Request, behaviour: Behaviour) -> Any:
    """A QueuedResource; its copy of the node is as it was at creation."""
    message = messages.copy(kept.message)
    (spec,) = message.tpu.node_spec
    if behaviour.project_numbers:
        spec.parent = Place.of(kept.name).numbered_name
    if kept.state is RequestState.ACTIVE:
        spec.node.scheduling_config.SetInParent()
        spec.node.shielded_instance_config.SetInParent()
    message.state.state = _number(message.state, "state", kept.state)
    if data := _STATE_DATA.get(kept.state):
        getattr(message.state, data).SetInParent()
    if kept.failure and kept.state is RequestState.FAILED:
        message.state.failed_data.error.code = kept.failure.code
        message.state.failed_data.error.message = kept.failure.message
    if kept.initiator is not Initiator.NONE and kept.state in (RequestState.SUSPENDING, RequestState.SUSPENDED):
        message.state.state_initiator = _number(message.state, "state_initiator", kept.initiator)
    return message


def node(kept: Node, behaviour: Behaviour) -> Any:
    message = messages.copy(kept.message)
    if kept.request and behaviour.project_numbers:
        place = Place.of(kept.request)
        message.queued_resource = kept.request.replace(place.name, place.numbered_name)
    message.state = _number(message, "state", kept.state)
    message.health = _number(message, "health", kept.health)
    message.health_description = kept.health_description
    message.api_version = _number(message, "api_version", "V2")
    if kept.state is NodeState.CREATING:
        del message.network_endpoints[:]  # our choice: addresses are known once it is up
    return message


def operation(kept: Operation, now_s: float) -> Any:
    """A google.longrunning.Operation with the client's OperationMetadata."""
    message = messages.new("google.longrunning.Operation", name=kept.name)
    metadata = messages.new("OperationMetadata", target=kept.target, verb=kept.verb, api_version="v2")
    metadata.cancel_requested = kept.cancel_requested
    messages.set_time(metadata.create_time, kept.create_s)
    if kept.is_done(now_s):
        message.done = True
        messages.set_time(metadata.end_time, max(kept.completed_s or 0, kept.hold_until_s))
        if kept.failure:
            message.error.code, message.error.message = kept.failure.code, kept.failure.message
        else:
            message.response.CopyFrom(messages.parse_any(kept.response))
    message.metadata.Pack(metadata)
    return message


def _number(message: Any, field: str, name: str) -> int:
    """Of an enum's value by its name; KeyError if the client's descriptor has none."""
    return message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_name[name].number
