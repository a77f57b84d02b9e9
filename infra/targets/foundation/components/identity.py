"""As whom hosts act: one service account, and what it may do with which bucket, repository and secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.host_roles import BUCKET_ROLES, ORBAX_BUCKETS, PROJECT_ROLES, SEES_BUCKET
from infra.names import Names

REPOSITORY_ROLE = "roles/artifactregistry.reader"
SECRET_ROLE = "roles/secretmanager.secretAccessor"


@dataclass(frozen=True)
class IdentityArgs:
    names: Names


class Identity(pulumi.ComponentResource):
    """The account alone; Access says what it may do, for the network needs it before there are buckets."""

    def __init__(self, name: str, args: IdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Identity", name, None, opts)
        account = gcp.serviceaccount.Account(
            "hosts",
            account_id=args.names.account_id,
            project=args.names.project,
            display_name=f"Training hosts in {args.names.region}",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.email, self.member = account.email, account.member
        self.register_outputs({"email": self.email})


@dataclass(frozen=True)
class AccessArgs:
    """Everything that hosts may touch, by what it is."""

    project: str
    buckets: Mapping[str, gcp.storage.Bucket]
    repositories: Mapping[str, gcp.artifactregistry.Repository]
    secrets: Mapping[str, gcp.secretmanager.Secret]


class Access(pulumi.ComponentResource):
    """Grants on single things; on the project only what writes its logs and metrics.

    member: the account as IAM spells it.
    """

    def __init__(
        self,
        name: str,
        args: AccessArgs,
        member: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slipway:foundation:Access", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        for kind, bucket in args.buckets.items():
            gcp.storage.BucketIAMMember(
                f"{kind}-for-hosts", bucket=bucket.name, role=BUCKET_ROLES[kind], member=member, opts=child
            )
        for kind in ORBAX_BUCKETS:
            bucket = args.buckets[kind].name
            gcp.storage.BucketIAMMember(
                f"{kind}-seen-by-hosts", bucket=bucket, role=SEES_BUCKET, member=member, opts=child
            )
        for kind, role in PROJECT_ROLES.items():
            gcp.projects.IAMMember(f"{kind}-for-hosts", project=args.project, role=role, member=member, opts=child)
        for kind, repository in args.repositories.items():
            gcp.artifactregistry.RepositoryIamMember(
                f"{kind}-for-hosts",
                project=repository.project,
                location=repository.location,
                repository=repository.repository_id,
                role=REPOSITORY_ROLE,
                member=member,
                opts=child,
            )
        for kind, secret in args.secrets.items():
            gcp.secretmanager.SecretIamMember(
                f"{kind}-for-hosts",
                project=secret.project,
                secret_id=secret.secret_id,
                role=SECRET_ROLE,
                member=member,
                opts=child,
            )
        self.register_outputs({})
