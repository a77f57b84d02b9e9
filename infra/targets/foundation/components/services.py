"""Google's APIs that a project needs, enabled."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True)
class ServicesArgs:
    project: str
    names: tuple[str, ...]  # without .googleapis.com


class Services(pulumi.ComponentResource):
    """Enables and never disables: others in the project may need them."""

    def __init__(self, name: str, args: ServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Services", name, None, opts)
        services = [
            gcp.projects.Service(
                service,
                project=args.project,
                service=f"{service}.googleapis.com",
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for service in args.names
        ]
        self.enabled = pulumi.Output.all(*(service.id for service in services))
        self.register_outputs({})
