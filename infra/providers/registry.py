"""The resources of the provider: those that several targets declare, and each target's own from its folder."""

from __future__ import annotations

from typing import Any

from infra.providers.prepared_data_resource import PreparedDataResource
from infra.providers.resource import Resource
from infra.providers.run_resource import RunResource
from infra.providers.stored_bundle_resource import StoredBundleResource
from infra.providers.stored_wheelhouse_resource import StoredWheelhouseResource
from infra.targets.registry import Target, part


def _of_target(target: Target) -> tuple[Resource[Any], ...]:
    """RESOURCES of infra/targets/<target>/provider/resources.py; none where a target has no such folder."""
    resources = part(target, "provider") and part(target, "provider.resources")
    return resources.RESOURCES if resources else ()


RESOURCES: tuple[Resource[Any], ...] = (
    StoredWheelhouseResource(),
    StoredBundleResource(),
    PreparedDataResource(),
    RunResource(),
    *(resource for target in Target for resource in _of_target(target)),
)
