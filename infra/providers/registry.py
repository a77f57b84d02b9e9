"""The resources of the provider: those that several targets declare, and each target's own from its folder."""

from __future__ import annotations

from typing import Any

from infra.providers.job_set_installation_resource import JobSetInstallationResource
from infra.providers.prepared_data_resource import PreparedDataResource
from infra.providers.resource import Resource
from infra.providers.run_resource import RunResource
from infra.providers.stack_guard_resource import StackGuardResource
from infra.providers.stored_bundle_resource import StoredBundleResource
from infra.providers.stored_wheelhouse_resource import StoredWheelhouseResource
from infra.targets import registry

RESOURCES: tuple[Resource[Any], ...] = (
    StackGuardResource(),
    StoredWheelhouseResource(),
    StoredBundleResource(),
    PreparedDataResource(),
    RunResource(),
    JobSetInstallationResource(),
    *(resource for target in registry.every() for resource in target.resources()),
)
