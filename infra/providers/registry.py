"""The resources of the provider, one line each."""

from __future__ import annotations

from typing import Any

from infra.providers.bundle_resource import Bundle
from infra.providers.prepared_data_resource import PreparedData
from infra.providers.resource import Resource
from infra.providers.run_resource import Run
from infra.providers.wheelhouse_resource import Wheelhouse
from infra.targets.local.provider.local_host import LocalHost
from infra.targets.local.provider.stack_guard import StackGuard
from infra.targets.tpu_vm.provider.queued_resource import QueuedResource
from infra.targets.tpu_vm.provider.slice_ready import SliceReady
from infra.targets.tpu_vm.provider.tpu_stack_guard import TpuStackGuard

RESOURCES: tuple[Resource[Any], ...] = (
    StackGuard(),
    Wheelhouse(),
    Bundle(),
    PreparedData(),
    Run(),
    LocalHost(),
    TpuStackGuard(),
    QueuedResource(),
    SliceReady(),
)
