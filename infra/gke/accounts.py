"""Who the nodes and the pods of a cluster are to Google, and what each may do. Pure.

Nodes write logs and metrics and pull images. Pods get at the buckets and secrets of their run, by Workload Identity:
whoever is the cluster's service account of that name is the Google account that is made for it. Refuses to own what
training does with a bucket (infra/host_roles.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra import host_roles
from infra.gke.settings import GkeSettings
from infra.targets.places import in_bucket

_REPOSITORY_ROLE = "roles/artifactregistry.reader"
_SECRET_ROLE = "roles/secretmanager.secretAccessor"
_BECOMES_ACCOUNT = "roles/iam.workloadIdentityUser"
_ON_PROJECT = "gcp:projects/iAMMember:IAMMember"
_ON_BUCKET = "gcp:storage/bucketIAMMember:BucketIAMMember"
_ON_REPOSITORY = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
_ON_SECRET = "gcp:secretmanager/secretIamMember:SecretIamMember"


@dataclass(frozen=True)
class Grant:
    """A role on a single thing; the member is whoever the grant is declared for."""

    word: str
    token: str
    inputs: Mapping[str, Any]


def identity_pool(settings: GkeSettings) -> str:
    return f"{settings.project}.svc.id.goog"


def pod_member(settings: GkeSettings) -> str:
    """The pods' account of the cluster, as Google's IAM spells it."""
    return f"serviceAccount:{identity_pool(settings)}[{settings.namespace}/{settings.account}]"


def becoming(settings: GkeSettings) -> Grant:
    """Lets pods be their Google account."""
    path = f"projects/{settings.project}/serviceAccounts/{settings.pod_email}"
    return Grant(
        "train-for-pods",
        "gcp:serviceaccount/iAMMember:IAMMember",
        {"serviceAccountId": path, "role": _BECOMES_ACCOUNT, "member": pod_member(settings)},
    )


def node_grants(settings: GkeSettings) -> list[Grant]:
    """Logs and metrics are the project's and no smaller thing's; images are the foundation's."""
    own = settings.names
    grants = [
        Grant(f"{kind}-for-nodes", _ON_PROJECT, {"project": settings.project, "role": role})
        for kind, role in host_roles.PROJECT_ROLES.items()
    ]
    for kind, repository in (("images", own.images_repository), ("mirror", own.mirror_repository)):
        place = {"project": settings.project, "location": settings.place, "repository": repository}
        grants.append(Grant(f"{kind}-for-nodes", _ON_REPOSITORY, place | {"role": _REPOSITORY_ROLE}))
    return grants


def pod_grants(settings: GkeSettings) -> list[Grant]:
    """Of the stack's own account; one that the stack names has what it has."""
    if settings.service_account:
        return []
    grants = [
        Grant(f"{kind}-{word}-for-pods", _ON_BUCKET, {"bucket": bucket, "role": role})
        for kind, bucket in _buckets(settings)
        for word, role in _roles(kind)
    ]
    for secret in settings.host_secrets:
        inputs = {"project": settings.project, "secretId": settings.names.secret_id(secret), "role": _SECRET_ROLE}
        grants.append(Grant(f"secret-{secret}-for-pods", _ON_SECRET, inputs))
    return grants


def _buckets(settings: GkeSettings) -> Iterator[tuple[str, str]]:
    """By what they hold: where the run reads wheels and text, and where it writes."""
    places = settings.places
    text = settings.data if in_bucket(settings.data) else places.data
    held = {"artifacts": places.artifacts_on_hosts, "checkpoints": places.runs}
    held |= {"data": text} if settings.sources else {}
    for kind, place in held.items():
        if in_bucket(place):
            yield kind, place.removeprefix("gs://").partition("/")[0]


def _roles(kind: str) -> Iterator[tuple[str, str]]:
    yield "objects", host_roles.BUCKET_ROLES[kind]
    if kind in host_roles.ORBAX_BUCKETS:
        yield "seen", host_roles.SEES_BUCKET
