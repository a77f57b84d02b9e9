"""Which permissions each role of Cloud Storage holds, as far as an emulated bucket asks for one.

Written from Google's reference pages ("IAM roles for Cloud Storage"), which also say that replacing an object takes
`delete`. Refuses to own who has a role (bucket_policies.py) and which permission a call needs (call_permissions.py).
"""

from __future__ import annotations

from collections.abc import Mapping

LIST, GET = "storage.objects.list", "storage.objects.get"
CREATE, DELETE, UPDATE = "storage.objects.create", "storage.objects.delete", "storage.objects.update"
MOVE, GET_BUCKET = "storage.objects.move", "storage.buckets.get"
CREATE_BUCKET, DELETE_BUCKET = "storage.buckets.create", "storage.buckets.delete"
GET_POLICY, SET_POLICY = "storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"

_OBJECTS = frozenset((GET, LIST, CREATE, DELETE, UPDATE, MOVE))
_BUCKETS = frozenset((GET_BUCKET, CREATE_BUCKET, DELETE_BUCKET, GET_POLICY, SET_POLICY))

# The basic roles hold these on the project; on its buckets they are members of the bucket's policy.
BASIC_ROLES: Mapping[str, frozenset[str]] = {
    "roles/owner": frozenset((CREATE_BUCKET, DELETE_BUCKET)),
    "roles/editor": frozenset((CREATE_BUCKET, DELETE_BUCKET)),
    "roles/viewer": frozenset(),
}
STORAGE_ROLES: Mapping[str, frozenset[str]] = {
    "roles/storage.admin": _OBJECTS | _BUCKETS,
    "roles/storage.objectViewer": frozenset((GET, LIST)),
    "roles/storage.objectCreator": frozenset((CREATE,)),
    "roles/storage.objectUser": _OBJECTS,
    "roles/storage.objectAdmin": _OBJECTS,
    "roles/storage.legacyObjectReader": frozenset((GET,)),
    "roles/storage.legacyObjectOwner": frozenset((GET, UPDATE)),
    "roles/storage.legacyBucketReader": frozenset((GET_BUCKET, LIST)),
    "roles/storage.legacyBucketWriter": frozenset((GET_BUCKET, LIST, CREATE, DELETE)),
    "roles/storage.legacyBucketOwner": frozenset((GET_BUCKET, LIST, CREATE, DELETE, GET_POLICY, SET_POLICY)),
}


def permissions(role: str) -> frozenset[str]:
    """None of a role of another service."""
    return STORAGE_ROLES.get(role) or BASIC_ROLES.get(role) or frozenset()
