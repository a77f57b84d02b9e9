"""Who has which role on emulated buckets and on their projects: IAM policies, as Google's APIs show and replace them.

Owns a policy's form, its etag, what a new bucket's says of its project's people, and what of a policy is refused.
Refuses to own what a role allows (storage_roles.py). Conditions, custom roles and roles of Cloud Storage that are not
known there are refused by name, so that none is granted and means nothing; of other services' roles, a few of which
hold rights to objects as well, only the three basic ones mean anything here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.emulators.storage_roles import STORAGE_ROLES
from infra.emulators.store_errors import ObjectStoreError

type _Members = dict[str, set[str]]  # by role

_BASIC = {"roles/owner": "projectOwner", "roles/editor": "projectEditor", "roles/viewer": "projectViewer"}
# Of a bucket with uniform access, for who has a basic role on its project (docs of IAM roles for Cloud Storage).
_OF_NEW_BUCKETS = {
    "roles/storage.legacyBucketOwner": ("projectEditor", "projectOwner"),
    "roles/storage.legacyBucketReader": ("projectViewer",),
    "roles/storage.legacyObjectOwner": ("projectEditor", "projectOwner"),
    "roles/storage.legacyObjectReader": ("projectViewer",),
}


class BucketPolicies:
    """Of buckets and of projects, from the first on. file: keeps them across starts."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.RLock()
        kept: dict[str, Any] = json.loads(file.read_text()) if file and file.exists() else {}
        self._projects: dict[str, str] = kept.get("projects", {})  # by bucket
        self._policies: dict[str, _Members] = {
            place: {role: set(members) for role, members in roles.items()}
            for place, roles in kept.get("policies", {}).items()
        }

    def begin(self, bucket: str, project: str, members: Mapping[str, Iterable[str]] | None = None) -> None:
        """With who has a basic role on its project, and more members by role; one that is known stays as it is."""
        with self._lock:
            if bucket in self._projects:
                return
            policy = {role: {f"{each}:{project}" for each in people} for role, people in _OF_NEW_BUCKETS.items()}
            for role, more in (members or {}).items():
                policy.setdefault(role, set()).update(more)
            self._projects[bucket], self._policies[_bucket(bucket)] = project, policy
            self._keep()

    def begin_project(self, project: str, members: Mapping[str, Iterable[str]]) -> None:
        """With members by role; one that is known stays as it is."""
        with self._lock:
            if _project(project) not in self._policies:
                self._policies[_project(project)] = {role: {*more} for role, more in members.items()}
                self._keep()

    def forget(self, bucket: str) -> None:
        with self._lock:
            self._projects.pop(bucket, None)
            self._policies.pop(_bucket(bucket), None)
            self._keep()

    def roles(self, bucket: str, email: str) -> frozenset[str]:
        """Of a service account on a bucket: on itself, or by what it has on the bucket's project."""
        with self._lock:
            project = self._projects.get(bucket, "")
            on_project = self.roles_on_project(project, email)
            identities = _identities(email) | {f"{_BASIC[role]}:{project}" for role in on_project & _BASIC.keys()}
            return on_project | self._held(_bucket(bucket), identities)

    def roles_on_project(self, project: str, email: str) -> frozenset[str]:
        with self._lock:
            return self._held(_project(project), _identities(email))

    def of_bucket(self, bucket: str) -> dict[str, Any]:
        return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{bucket}"} | self._shown(_bucket(bucket))

    def of_project(self, project: str) -> dict[str, Any]:
        return self._shown(_project(project))

    def set_of_bucket(self, bucket: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        self._replace(_bucket(bucket), policy, stale=412)
        return self.of_bucket(bucket)

    def set_of_project(self, project: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        self._replace(_project(project), policy, stale=409)
        return self.of_project(project)

    def _held(self, place: str, identities: frozenset[str]) -> frozenset[str]:
        policy = self._policies.get(place, {})
        return frozenset(role for role, members in policy.items() if members & identities)

    def _shown(self, place: str) -> dict[str, Any]:
        with self._lock:
            policy = self._policies.get(place, {})
            bindings = [{"role": role, "members": sorted(policy[role])} for role in sorted(policy) if policy[role]]
        digest = hashlib.sha256(json.dumps(bindings).encode()).digest()
        return {"version": 1, "etag": base64.b64encode(digest[:9]).decode(), "bindings": bindings}

    def _replace(self, place: str, policy: Mapping[str, Any], stale: int) -> None:
        """stale: the status of what was not read from the policy of now."""
        bindings: list[dict[str, Any]] = policy.get("bindings") or []
        for binding in bindings:
            self._check(place, binding)
        with self._lock:
            if policy.get("etag", self._shown(place)["etag"]) != self._shown(place)["etag"]:
                raise ObjectStoreError(
                    stale, "There were concurrent policy changes. Please retry the whole read-modify-write."
                )
            members: _Members = {}
            for binding in bindings:
                members.setdefault(binding["role"], set()).update(binding.get("members", ()))
            self._policies[place] = members
            self._keep()

    def _check(self, place: str, binding: Mapping[str, Any]) -> None:
        role = str(binding.get("role"))
        if binding.get("condition"):
            raise ObjectStoreError(400, f"The emulator does not evaluate conditions: {role} has one.")
        of_another_service = place.startswith("projects/") and not role.startswith("roles/storage.")
        if not role.startswith("roles/") or not (role in STORAGE_ROLES or of_another_service):
            raise ObjectStoreError(400, f"Role {role} is not supported for this resource, or the emulator lacks it.")

    def _keep(self) -> None:
        if self._file:
            policies = {
                place: {role: sorted(members) for role, members in policy.items()}
                for place, policy in self._policies.items()
            }
            partial = self._file.with_name(f"{self._file.name}.partial")
            partial.write_text(json.dumps({"projects": self._projects, "policies": policies}, indent=1))
            partial.replace(self._file)


def _bucket(name: str) -> str:
    return f"b/{name}"


def _project(name: str) -> str:
    return f"projects/{name}"


def _identities(email: str) -> frozenset[str]:
    return frozenset((f"serviceAccount:{email}", "allUsers", "allAuthenticatedUsers"))
