"""Buckets that the stand-in makes, and roles on them, in the emulated Cloud Storage that STORAGE_EMULATOR_HOST names.

There stacks look for those of their foundation, and hosts that boot are held to the roles that it grants. Owns that a
bucket comes and goes with its resource, and a member of a policy with its own, which is read, changed and written as
Google's plugin does. Refuses to own what is in a bucket: one with objects is not deleted, as at Google.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from infra.emulated import STORAGE
from infra.providers.resource import ResourceError

TOKEN = "gcp:storage/bucket:Bucket"
_ON_BUCKET, _ON_PROJECT = "gcp:storage/bucketIAMMember:BucketIAMMember", "gcp:projects/iAMMember:IAMMember"
GRANTS = frozenset((_ON_BUCKET, _ON_PROJECT))
_GONE, _THERE = 404, 409
_STALE = (409, 412)  # somebody else has changed the policy meanwhile
_TRIES = 20
_TIMEOUT_S = 60


class EmulatedBuckets:
    """endpoint: of the emulator, with a scheme or, as Go's client has it, without; empty: nothing is done."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._changes_policy = threading.Lock()  # the engine makes several members of one policy at once

    def make(self, name: str, project: str, location: str) -> None:
        """One that is there already stays: `slipway emulate tpu` has those of the stacks that it knows."""
        if self._endpoint:
            answer = self._ask("POST", f"/storage/v1/b?project={quote(project)}", {"name": name, "location": location})
            answer.raise_unless(_THERE)

    def delete(self, name: str) -> None:
        if self._endpoint:
            self._ask("DELETE", f"/storage/v1/b/{quote(name)}").raise_unless(_GONE)

    def grant(self, token: str, grant: Mapping[str, Any]) -> None:
        """grant: a resource of GRANTS, by its properties."""
        self._change(token, grant, lambda members: members | {grant["member"]})

    def revoke(self, token: str, grant: Mapping[str, Any]) -> None:
        """Also of a bucket that is gone, and with it its policy."""
        self._change(token, grant, lambda members: members - {grant["member"]}, _GONE)

    def has(self, token: str, grant: Mapping[str, Any]) -> bool:
        """Whether nobody has taken it away; where there is no emulator nobody could."""
        if not self._endpoint:
            return True
        answer = self._policy(token, grant)
        answer.raise_unless(_GONE)
        return answer.status != _GONE and grant["member"] in _members(answer.value, grant["role"])

    def _change(
        self, token: str, grant: Mapping[str, Any], change: Callable[[set[str]], set[str]], passed_over: int = 0
    ) -> None:
        if not self._endpoint:
            return
        with self._changes_policy:
            answer, tries = self._changed(token, grant, change), 1
            while answer.status in _STALE and tries < _TRIES:
                answer, tries = self._changed(token, grant, change), tries + 1
        answer.raise_unless(passed_over)

    def _changed(self, token: str, grant: Mapping[str, Any], change: Callable[[set[str]], set[str]]) -> _Answer:
        answer = self._policy(token, grant)
        if answer.status >= 400:
            return answer
        policy, role = answer.value, grant["role"]
        others = [each for each in policy.get("bindings", []) if each["role"] != role]
        binding = {"role": role, "members": sorted(change(_members(policy, role)))}
        condition = {"condition": grant["condition"]} if grant.get("condition") else {}
        policy["bindings"] = [*others, binding | condition]
        if token == _ON_BUCKET:
            return self._ask("PUT", _path(token, grant), policy)
        return self._ask("POST", f"{_path(token, grant)}:setIamPolicy", {"policy": policy})

    def _policy(self, token: str, grant: Mapping[str, Any]) -> _Answer:
        if token == _ON_BUCKET:
            return self._ask("GET", _path(token, grant))
        return self._ask("POST", f"{_path(token, grant)}:getIamPolicy", {})

    def _ask(self, method: str, path: str, value: Any = None) -> _Answer:
        address = urlsplit(self._endpoint).netloc if "://" in self._endpoint else self._endpoint
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
        body = None if value is None else json.dumps(value)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return _Answer(answer.status, json.loads(answer.read() or b"{}"))
        except OSError as error:
            raise ResourceError(f"{STORAGE} is {self._endpoint}, which does not answer: {error}") from None
        finally:
            connection.close()


@dataclass(frozen=True)
class _Answer:
    status: int
    value: dict[str, Any]

    def raise_unless(self, passed_over: int) -> None:
        """Raises ResourceError in Google's words, but of that status."""
        if self.status >= 400 and self.status != passed_over:
            raise ResourceError(f"googleapi: Error {self.status}: {self.value['error']['message']}")


def _path(token: str, grant: Mapping[str, Any]) -> str:
    if token == _ON_BUCKET:
        return f"/storage/v1/b/{quote(str(grant['bucket']).removeprefix('b/'))}/iam"
    return f"/v1/projects/{quote(str(grant['project']).removeprefix('projects/'))}"


def _members(policy: Mapping[str, Any], role: str) -> set[str]:
    return {member for each in policy.get("bindings", []) if each["role"] == role for member in each["members"]}
