"""The resources of the provider, one line each."""

from __future__ import annotations

from typing import Any

from infra.providers.bundle import Bundle
from infra.providers.local_host import LocalHost
from infra.providers.prepared_data import PreparedData
from infra.providers.queued_resource import QueuedResource
from infra.providers.resource import Resource
from infra.providers.run_record import Run
from infra.providers.slice_ready import SliceReady
from infra.providers.stack_guard import StackGuard
from infra.providers.tpu_stack_guard import TpuStackGuard
from infra.providers.wheelhouse import Wheelhouse

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
