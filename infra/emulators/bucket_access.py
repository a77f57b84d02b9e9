"""Who may do what with an emulated bucket: by the roles of its caller, and how Cloud Storage words what one lacks.

Owns what a caller is told. Refuses to own what a role holds (storage_roles.py), policies (bucket_policies.py) and which
permission a call needs (call_permissions.py). The sentences are written from 403s that people have reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.storage_roles import CREATE_BUCKET, LIST, permissions


@dataclass
class BucketAccess:
    """All of it may change while a server asks.

    accounts: the e-mail behind each token that is valid now. grants: by bucket and e-mail, roles, besides those that
    `policies` give. denied: permissions that a deny policy takes from everybody, whatever their roles.
    """

    accounts: Mapping[str, str]
    grants: Mapping[str, Mapping[str, Set[str]]] = field(default_factory=dict[str, Mapping[str, Set[str]]])
    denied: set[str] = field(default_factory=set[str])
    policies: BucketPolicies = field(default_factory=BucketPolicies)

    def has(self, token: str, permission: str, bucket: str) -> bool:
        email = self.accounts[token]
        roles = self.grants.get(bucket, {}).get(email, frozenset()) | self.policies.roles(bucket, email)
        return self._holds(roles, permission)

    def refusal(self, token: str, permission: str, bucket: str) -> str | None:
        """What the caller is told who lacks a permission on a bucket, or on an object in it."""
        if self.has(token, permission, bucket):
            return None
        what = "bucket" if permission == LIST or permission.startswith("storage.buckets.") else "object"
        return self._sentence(token, permission, f"Google Cloud Storage {what}")

    def refusal_of_bucket(self, token: str, project: str) -> str | None:
        """What the caller is told who may make no bucket in a project."""
        if self._holds(self.policies.roles_on_project(project, self.accounts[token]), CREATE_BUCKET):
            return None
        return self._sentence(token, CREATE_BUCKET, "Google Cloud project")

    def _holds(self, roles: Set[str], permission: str) -> bool:
        return permission not in self.denied and any(permission in permissions(role) for role in roles)

    def _sentence(self, token: str, permission: str, where: str) -> str:
        return (
            f"{self.accounts[token]} does not have {permission} access to the {where}. "
            f"Permission '{permission}' denied on resource (or it may not exist)."
        )
