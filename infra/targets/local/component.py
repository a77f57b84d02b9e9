"""A stack on this machine: guard, wheelhouse, bundle, data, run record, one process group per host."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.resources import (
    Bundle,
    BundleArgs,
    LocalHost,
    LocalHostArgs,
    PreparedData,
    PreparedDataArgs,
    Run,
    RunArgs,
    StackGuard,
    StackGuardArgs,
    Wheelhouse,
    WheelhouseArgs,
)


@dataclass(frozen=True)
class LocalStackArgs:
    guard: StackGuardArgs
    wheelhouse: WheelhouseArgs
    bundle: BundleArgs
    data: PreparedDataArgs | None
    run: RunArgs
    hosts: tuple[LocalHostArgs, ...]


class LocalStack(pulumi.ComponentResource):
    """Hosts start after data is prepared and the run is recorded. Does not wait for training to end."""

    def __init__(self, name: str, args: LocalStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:local:Stack", name, None, opts)

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=list(resources))

        guard = StackGuard("guard", args.guard, after())
        wheelhouse = Wheelhouse("wheelhouse", args.wheelhouse, after(guard))
        bundle = Bundle("bundle", args.bundle, after(guard))
        installed = (guard, wheelhouse, bundle)
        data = [PreparedData("data", args.data, after(*installed))] if args.data else []
        run = Run("run", args.run, after(guard, *data))
        hosts = [LocalHost(f"host-{host.index}", host, after(*installed, *data, run)) for host in args.hosts]
        self.run_id = run.run_id
        self.health = pulumi.Output.all(*[host.health for host in hosts]).apply(lambda words: sorted(set(words)))
        self.register_outputs({"run_id": self.run_id, "health": self.health})
