"""slipway:tpu:QueuedResource: a request for TPU slices, every field of the Cloud TPU API's v2.

Owns read, drift and what a change means for it. Create returns once the request is accepted. SliceReady waits for its
chips, and tpu_request.py asks for it and finds it again. Not run on real hardware.

Its id says no zone: the request lies in one of `zones`, SliceReady may move it to the next, and it is found again by
name and label. What an update means: the API has no PATCH for a request and ignores its copy of labels, tags, metadata
and description once nodes exist, so those are patched on the nodes. The bundle is said in the artifact store too
(tpu_wanted.py), where hosts of a request that waits learn it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from infra.providers.input_types import UNKNOWN, Unknown
from infra.providers.resource import Context, OnChange, Outputs, RemoteService, Resource
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup, tpu_nodes, tpu_request, tpu_wanted
from infra.targets.tpu_vm.provider.tpu_cleanup import Found, appears_s
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs, fingerprint, problems
from infra.targets.tpu_vm.provider.tpu_ownership import made_of
from infra.targets.tpu_vm.provider.tpu_request import AS_WANTED, OUTPUTS, Known

_KEPT = "metadata updates: the request keeps its place in the queue, since its hosts learn their bundle when they boot"


class TpuRequestResource(Resource[QueuedResourceInputs]):
    inputs = QueuedResourceInputs
    timeout_s: ClassVar[float] = 1800.0
    refresh_before_update: ClassVar[bool] = True  # preemption is drift in the next preview

    def check(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """At a first preview the guard is not there, which says the identity."""
        failures = super().check(values)
        unknown = {key for key, value in values.items() if isinstance(value, Unknown)}
        if failures or unknown - {"identity"}:
            return failures
        return problems(self.parse({key: value for key, value in values.items() if key not in unknown}))

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return tpu_api.API.service

    def create(self, context: Context, new: QueuedResourceInputs) -> tuple[str, Outputs]:
        return new.identifier, tpu_request.ensure(context, new).outputs

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        inputs = self.parse(outputs)
        request = tpu_request.find(context, inputs, Known.of(outputs))
        if request is None:
            return None
        seen = request.outputs
        seen["differs"] = tpu_wanted.differences(context, inputs)
        if request.state == "ACTIVE":
            seen["differs"] += tpu_nodes.differences(inputs, request.nodes)
            seen["lost"] = tpu_nodes.lost(inputs, request.nodes)
            seen["unwell"] = tpu_nodes.unwell(request.nodes)
            for sentence in seen["unwell"]:
                context.say(f"{sentence}: the service mends that itself, and the request stays as it is")
        return seen

    def update(self, context: Context, identifier: str, outputs: Outputs, new: QueuedResourceInputs) -> Outputs:
        context.accept(identifier, {key: outputs.get(key, "") for key in OUTPUTS} | AS_WANTED)
        return tpu_request.ensure(context, new, Known.of(outputs)).outputs

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Also what lies in a zone that it was moved to, or that a POST without an answer has left.

        Where the request that the state knows is gone, a killed `up` may have asked for the next one a moment ago.
        """
        inputs, known = self.parse(outputs), Known.of(outputs)
        parents = [inputs.parent(zone) for zone in inputs.places(known.zone)]
        claim, names = inputs.claim(known.made), (inputs.name, *inputs.node_ids)
        known_is_there = False

        def is_ours(thing: Found) -> bool:
            nonlocal known_is_there
            labels = dict(thing.labels)
            known_is_there |= not thing.is_node and bool(known.made) and made_of(labels) == known.made
            return claim.owns(labels) and thing.id in names

        made_in = inputs.parent(known.zone) if known.zone else ""
        tpu_cleanup.remove_labelled(context, parents, is_ours, made_in=made_in)
        if not known_is_there:
            tpu_cleanup.remove_labelled(context, parents, is_ours, appears_s(), made_in)
        tpu_cleanup.note_deleted(inputs.project, inputs.stack)

    def drift(self, outputs: Outputs) -> list[str]:
        # DELETING: an `up` that was killed, or somebody else, has begun to delete it.
        ended = outputs.get("state") in (*tpu_request.ENDED, "DELETING") or bool(outputs.get("lost"))
        return [*(["state"] if ended else []), *(["differs"] if outputs.get("differs") else [])]

    def planned(self, state: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """What has ended is asked for anew, and SliceReady waits anew."""
        known = super().planned(state, new)
        if "state" in self.drift(dict(state)):
            known |= dict.fromkeys(OUTPUTS, UNKNOWN)
        return known

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """Zones replace nothing while the request's own is among them; metadata does where no node can be patched, but
        for the bundle that hosts ask for.
        """
        changed = super().changes(old, new, state)
        if changed.get("zones") is OnChange.REPLACE:
            zone = (state or {}).get("zone") or old["zones"][0]
            if isinstance(new["zones"], list) and zone in new["zones"]:
                changed["zones"] = OnChange.UPDATE
        if "metadata" in changed and _waits(state) and not self._keeps_its_place(old, new):
            changed["metadata"] = OnChange.REPLACE
        return changed

    def remarks(self, changes: Mapping[str, OnChange], state: Mapping[str, Any]) -> list[str]:
        return [_KEPT] if _waits(state) and set(changes.values()) == {OnChange.UPDATE} and "metadata" in changes else []

    def _keeps_its_place(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether its hosts learn when they boot what is another now."""
        if not isinstance(new["metadata"], dict):
            return False  # not known yet
        before = self.parse(old)
        after = replace(before, metadata=new["metadata"], wanted_in=new.get("wanted_in", ""))
        return bool(after.wanted_key) and fingerprint(before) == fingerprint(after)


def _waits(state: Mapping[str, Any] | None) -> bool:
    return (state or {}).get("state") in tpu_request.WAITING
