"""At which service a resource was made, and by which release: kept in its state, and checked before it is touched.

A `destroy` that reaches another service than `up` did would report success while what was made runs on and bills. So a
resource is read, updated and deleted only where it was made. Pure but for asking whether something is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from infra import emulated
from infra.providers.resource import Context, Outputs, RemoteService, Resource, ResourceError, ResourceInputs
from infra.targets.places import S3_ENDPOINT, in_bucket, in_s3

# Of what a resource keeps in the state; a state without one was written by 0.1.0.
# 1: inputs and outputs. 2: also the service that it was made at.
VERSION = 2
VERSION_KEY, SERVICE_KEY = "state_version", "service"
_STORAGE, _S3 = "storage.googleapis.com", "s3.amazonaws.com"


class StoredResource[I: ResourceInputs](Resource[I]):
    """What lies in the bucket or directory that its input `store_key` names."""

    store_key: ClassVar[str] = "store"

    def service(self, values: Mapping[str, Any]) -> RemoteService | None:
        """Who keeps the store; None for a directory."""
        store = str(values[self.store_key])
        if in_s3(store):
            return RemoteService(_S3, S3_ENDPOINT, os.environ.get(S3_ENDPOINT, ""))
        if not in_bucket(store):
            return None
        return RemoteService(_STORAGE, emulated.STORAGE, os.environ.get(emulated.STORAGE, ""))


def stamp(resource: Resource[Any], values: Mapping[str, Any]) -> Outputs:
    """The outputs that record where a resource was made, and by which release."""
    service = resource.service(values)
    return {VERSION_KEY: VERSION} | ({SERVICE_KEY: service.name} if service else {})


def check(resource: Resource[Any], context: Context, identifier: str, state: Outputs) -> None:
    """Raises ResourceError where this release, or the service that would answer now, is not the one to ask."""
    name = context.urn.rpartition("::")[2]
    if state.get(VERSION_KEY, 1) > VERSION:
        raise ResourceError(
            f"{name} was written by a newer Slipway (state version {state[VERSION_KEY]}, this one knows {VERSION}); "
            f"update this clone, then run it again"
        )
    service = resource.service(state)
    if service is None:
        return
    recorded = str(state.get(SERVICE_KEY, ""))
    if recorded and recorded != service.name:
        raise ResourceError(_elsewhere(name, identifier, recorded, service, context.urn))
    # 0.1.0 did not record it: what the stand-in of a service does not have may be running at the real one.
    if not recorded and service.instead and not resource.is_there(context, identifier, state):
        raise ResourceError(_elsewhere(name, identifier, service.real, service, context.urn, " (as far as is known)"))


def _elsewhere(name: str, identifier: str, recorded: str, service: RemoteService, urn: str, certainty: str = "") -> str:
    stack = urn.removeprefix("urn:pulumi:").partition("::")[0]
    first = f"{name} ({identifier}) was made at {recorded}{certainty}, but {service.name} would be asked now"
    if recorded == service.real:
        return (
            f"{first}: it was not touched, and may be running and billed; run `unset {service.variable}`, "
            f"then the same command again"
        )
    return (
        f"{first}: it was not touched; run `export {service.variable}={recorded}`, with that emulator running, then "
        f"the same command again; if it is gone for good, it goes from the state with what depends on it by: "
        f"pulumi state delete --stack {stack} --target-dependents '{urn}'"
    )
