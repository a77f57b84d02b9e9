"""slipway:vertex:Job: a custom job of Vertex AI, made once, whose create ends when it runs.

Owns read, drift and what a change means for it: none can be changed, so each change replaces it. One that is done is
not made again unless what it runs has changed, also where somebody has deleted its record. Refuses to own how it is
asked for and found again (vertex_jobs.py). Not run on real hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.providers.input_types import UNKNOWN, Unknown
from infra.providers.resource import Context, OnChange, Outputs, RemoteService, Resource
from infra.targets.vertex.provider import vertex_api, vertex_cleanup, vertex_jobs
from infra.targets.vertex.provider.vertex_api import CustomJob
from infra.targets.vertex.provider.vertex_cleanup import appears_s
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs, problems
from infra.targets.vertex.provider.vertex_jobs import OUTPUTS, KnownJob

_DONE = ("SUCCEEDED", "PARTIALLY_SUCCEEDED")
_WAITS = ("CREATING", "QUEUED", "PENDING")
_LOST = ("FAILED", "CANCELLING", "CANCELLED", "EXPIRED")


class VertexJobResource(Resource[VertexJobInputs]):
    inputs = VertexJobInputs
    timeout_s: ClassVar[float] = 367 * 86_400.0  # the stack's wait_deadline is the shorter one
    refresh_before_update: ClassVar[bool] = True  # a job that has failed is drift in the next preview

    def check(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """At a first preview the guard is not there, which says the identity."""
        failures = super().check(values)
        unknown = {key for key, value in values.items() if isinstance(value, Unknown)}
        if failures or unknown - {"identity"}:
            return failures
        return problems(self.parse({key: value for key, value in values.items() if key not in unknown}))

    def service(self, values: Mapping[str, Any]) -> RemoteService:
        return vertex_api.API.service

    def create(self, context: Context, new: VertexJobInputs) -> tuple[str, Outputs]:
        return new.identifier, vertex_jobs.ensure(context, new)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        inputs, known = self.parse(outputs), KnownJob.of(outputs)
        job, doubles = vertex_jobs.find(context, inputs, known)
        if job is None:
            return {} if known.state in _DONE else None
        return vertex_jobs.outputs_of(job, doubles)

    def update(self, context: Context, identifier: str, outputs: Outputs, new: VertexJobInputs) -> Outputs:
        known: Outputs = {key: outputs.get(key, "") for key in OUTPUTS}
        context.accept(identifier, known | {"doubles": outputs.get("doubles", [])})
        return vertex_jobs.ensure(context, new, KnownJob.of(outputs))

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Also what a POST without an answer has left, in any region.

        Where the job that the state knows is gone, a killed `up` may have asked for the next one a moment ago.
        """
        inputs, known = self.parse(outputs), KnownJob.of(outputs)
        parents = [inputs.parent(region) for region in inputs.places(known.region)]
        made_in = inputs.parent(known.region) if known.region else ""
        if known.name:
            job = vertex_api.get(context, known.name)
            if job is not None and vertex_jobs.owns(inputs, known, job):
                vertex_cleanup.remove(context, known.name)
            else:
                known = KnownJob(region=known.region, made=known.made, state=known.state)

        def is_ours(job: CustomJob) -> bool:
            return vertex_jobs.owns(inputs, known, job)

        settle_s = 0.0 if known.name or known.state in _DONE else appears_s()
        vertex_cleanup.remove_wanted(context, parents, is_ours, settle_s, made_in, inputs.display_name)
        vertex_cleanup.note_deleted(inputs.project, inputs.stack)

    def drift(self, outputs: Outputs) -> list[str]:
        """One that waits, where `up` is to wait with it, and one that has ended before its time."""
        waits = outputs.get("wait", True) and outputs.get("state") in _WAITS
        amiss = waits or outputs.get("state") in _LOST
        return [*(["state"] if amiss else []), *(["doubles"] if outputs.get("doubles") else [])]

    def planned(self, state: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """What has ended before its time is asked for anew, and what waits may come to run elsewhere."""
        known = super().planned(state, new)
        if "state" in self.drift(dict(state)):
            known |= dict.fromkeys(OUTPUTS, UNKNOWN)
        return known

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """Regions replace nothing while the job's own is among them."""
        changed = super().changes(old, new, state)
        if changed.get("regions") is OnChange.REPLACE:
            region = (state or {}).get("region") or old["regions"][0]
            if isinstance(new["regions"], list) and region in new["regions"]:
                changed["regions"] = OnChange.UPDATE
        return changed
