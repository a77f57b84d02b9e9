"""Which permission a call to an emulated bucket needs. Raises ObjectStoreError where the caller lacks it.

Refuses to own who has which (bucket_access.py). That replacing an object takes `delete` as well, and that a move takes
`move` or the rights to read and to remove, is written from Google's reference pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.storage_roles import CREATE, DELETE, GET, LIST, MOVE
from infra.emulators.store_errors import ObjectStoreError
from infra.emulators.stored_objects import StoredObjects


@dataclass(frozen=True)
class CallPermissions:
    """Of the caller with that token; without `access` of nobody in particular, who may do everything."""

    access: BucketAccess | None
    objects: StoredObjects
    token: str

    def may(self, bucket: str, *permissions: str) -> None:
        """A bucket that is not there is nobody's to be refused."""
        if self.access is None or not self.objects.has_bucket(bucket):
            return
        for permission in permissions:
            if said := self.access.refusal(self.token, permission, bucket):
                raise ObjectStoreError(403, said)

    def may_find(self, bucket: str, name: str, permission: str) -> None:
        """Whether an object is there, only those are told who may list the bucket."""
        self.may(bucket, permission)
        if not self.objects.file(bucket, name).is_file():
            self.may(bucket, LIST)

    def may_put(self, bucket: str, name: str, query: Mapping[str, str]) -> None:
        """Replacing an object is deleting one as well."""
        replaces = self.objects.file(bucket, name).is_file() and query.get("ifGenerationMatch") != "0"
        self.may(bucket, CREATE, *((DELETE,) if replaces else ()))

    def may_move(self, bucket: str) -> None:
        if not (self.access and self.access.has(self.token, MOVE, bucket)):
            self.may(bucket, GET, DELETE)

    def may_make_bucket(self, project: str) -> None:
        if self.access and (said := self.access.refusal_of_bucket(self.token, project)):
            raise ObjectStoreError(403, said)
