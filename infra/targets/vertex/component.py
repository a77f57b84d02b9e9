"""A custom job of one stack: guard, wheelhouse, bundle, data, run record, and the job."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.prepared_run import PreparedRunArgs, prepare_run
from infra.components.resources import SlipwayResource, child_after
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs, VertexStackGuardInputs


class VertexStackGuard(SlipwayResource[VertexStackGuardInputs]):
    """Declare it first: its delete runs last and removes what the state never learned of."""

    identity: pulumi.Output[str]


class VertexJob(SlipwayResource[VertexJobInputs]):
    """A custom job; there once it runs, in one of its regions."""

    name: pulumi.Output[str]
    region: pulumi.Output[str]
    state: pulumi.Output[str]


@dataclass(frozen=True)
class VertexTrainingArgs:
    guard: VertexStackGuardInputs
    prepared: PreparedRunArgs
    job: VertexJobInputs  # its `identity` follows from the guard


class VertexTraining(pulumi.ComponentResource):
    """Containers find bundle and data in their buckets before they exist, and nothing is asked for that another run's
    name or too little data stops.

    Does not wait for training to end.
    """

    def __init__(self, name: str, args: VertexTrainingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:vertex:Training", name, None, opts)
        guard = VertexStackGuard("guard", args.guard, child_after(self))
        run = prepare_run(args.prepared, self, guard, guard.identity)
        job = VertexJob("job", args.job, child_after(self, guard, *run), {"identity": guard.identity})
        self.state, self.region = job.state, job.region
        self.register_outputs({"state": self.state, "region": self.region})
