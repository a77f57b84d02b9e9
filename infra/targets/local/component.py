"""A stack on this machine: guard, wheelhouse, bundle, data, run record, one process group per host."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.resources import PreparedData, Run, SlipwayResource, child_after
from infra.components.stored_software import StoredSoftwareArgs, store_software
from infra.providers.inputs import PreparedDataInputs, RunInputs
from infra.targets.local.provider.local_inputs import LocalHostInputs, LocalStackGuardInputs


class LocalStackGuard(SlipwayResource[LocalStackGuardInputs]):
    """Declare it first: its delete runs last and removes what the state never learned of."""


class LocalHost(SlipwayResource[LocalHostInputs]):
    health: pulumi.Output[str]


@dataclass(frozen=True)
class LocalStackArgs:
    guard: LocalStackGuardInputs
    software: StoredSoftwareArgs
    data: PreparedDataInputs | None
    run: RunInputs
    hosts: tuple[LocalHostInputs, ...]


class LocalStack(pulumi.ComponentResource):
    """Hosts start after data is prepared and the run is recorded. Does not wait for training to end."""

    def __init__(self, name: str, args: LocalStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:local:Stack", name, None, opts)
        guard = LocalStackGuard("guard", args.guard, child_after(self))
        installed = (guard, *store_software(args.software, self, guard))
        data = [PreparedData("data", args.data, child_after(self, *installed))] if args.data else []
        run = Run("run", args.run, child_after(self, guard, *data))
        hosts_options = child_after(self, *installed, *data, run)
        hosts = [LocalHost(f"host-{host.index}", host, hosts_options) for host in args.hosts]
        self.run_id = run.run_id
        self.health = pulumi.Output.all(*[host.health for host in hosts]).apply(lambda words: sorted(set(words)))
        self.register_outputs({"run_id": self.run_id, "health": self.health})
