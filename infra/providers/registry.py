"""The resources of the provider, one line each."""

from __future__ import annotations

from typing import Any

from infra.providers.bundle import Bundle
from infra.providers.local_host import LocalHost
from infra.providers.prepared_data import PreparedData
from infra.providers.resource import Resource
from infra.providers.run_record import Run
from infra.providers.stack_guard import StackGuard
from infra.providers.wheelhouse import Wheelhouse

RESOURCES: tuple[Resource[Any], ...] = (
    StackGuard(),
    Wheelhouse(),
    Bundle(),
    PreparedData(),
    Run(),
    LocalHost(),
)
