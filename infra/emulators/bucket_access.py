"""Who may do what with an emulated bucket: roles that accounts have on it, and how Cloud Storage words what one lacks.

Owns the permissions of each role, and what a caller is told. Refuses to own which permission a call needs
(object_store.py). Roles, and that replacing an object takes `delete` as well, are written from Google's reference
pages; the sentences from 403s that people have reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

LIST, GET = "storage.objects.list", "storage.objects.get"
CREATE, DELETE, UPDATE = "storage.objects.create", "storage.objects.delete", "storage.objects.update"
MOVE, GET_BUCKET = "storage.objects.move", "storage.buckets.get"

ROLES: Mapping[str, frozenset[str]] = {
    "roles/storage.objectViewer": frozenset((GET, LIST)),
    "roles/storage.objectCreator": frozenset((CREATE,)),
    "roles/storage.objectUser": frozenset((GET, LIST, CREATE, DELETE, UPDATE, MOVE)),
    "roles/storage.objectAdmin": frozenset((GET, LIST, CREATE, DELETE, UPDATE, MOVE)),
    "roles/storage.legacyBucketReader": frozenset((GET_BUCKET, LIST)),
}


@dataclass
class BucketAccess:
    """All of it may change while a server asks.

    accounts: the e-mail behind each token that is valid now. grants: by bucket and e-mail, roles. denied: permissions
    that a deny policy takes from everybody, whatever their roles.
    """

    accounts: Mapping[str, str]
    grants: Mapping[str, Mapping[str, Set[str]]] = field(default_factory=dict[str, Mapping[str, Set[str]]])
    denied: set[str] = field(default_factory=set[str])

    def has(self, token: str, permission: str, bucket: str) -> bool:
        roles = self.grants.get(bucket, {}).get(self.accounts[token], frozenset())
        return permission not in self.denied and any(permission in ROLES[role] for role in roles)

    def refusal(self, token: str, permission: str, bucket: str) -> str | None:
        """What the caller is told who lacks a permission on a bucket, or on an object in it."""
        if self.has(token, permission, bucket):
            return None
        what = "bucket" if permission in (LIST, GET_BUCKET) else "object"
        return (
            f"{self.accounts[token]} does not have {permission} access to the Google Cloud Storage {what}. "
            f"Permission '{permission}' denied on resource (or it may not exist)."
        )
