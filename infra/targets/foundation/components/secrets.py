"""Places for secrets in Secret Manager. Never a value: that is added by hand and read on the host."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.names import Names


@dataclass(frozen=True)
class SecretsArgs:
    names: Names
    secrets: tuple[str, ...]


class Secrets(pulumi.ComponentResource):
    """Empty until `gcloud secrets versions add`; destroy deletes them with their values."""

    def __init__(self, name: str, args: SecretsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Secrets", name, None, opts)
        replication = gcp.secretmanager.SecretReplicationArgs(auto=gcp.secretmanager.SecretReplicationAutoArgs())
        self.secrets = {
            secret: gcp.secretmanager.Secret(
                secret,
                secret_id=args.names.secret_id(secret),
                project=args.names.project,
                replication=replication,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for secret in args.secrets
        }
        self.register_outputs({name: secret.id for name, secret in self.secrets.items()})
