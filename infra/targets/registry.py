"""The targets: which module holds the settings of a stack of it, and which declares one.

A table of names, so that a stack costs the imports of its own target only. Refuses to own what is in those modules.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, cast

from training.run_spec import RunSpec


class Target(StrEnum):
    LOCAL = "local"
    TPU_VM = "tpu-vm"
    FOUNDATION = "foundation"


# `infra.targets.<module>` has declare(settings); `infra.targets.<module>_settings` has the class.
_MODULES = {
    Target.LOCAL: ("local", "LocalSettings"),
    Target.TPU_VM: ("tpu_vm", "TpuVmSettings"),
    Target.FOUNDATION: ("foundation", "FoundationSettings"),
}


def settings_class(target: Target) -> type[Any]:
    """A frozen pydantic model of the keys that a stack of the target may have."""
    module, name = _MODULES[target]
    return cast(type[Any], getattr(importlib.import_module(f"infra.targets.{module}_settings"), name))


def declare(target: Target) -> Callable[[Any], tuple[RunSpec | None, tuple[str, ...]]]:
    """Declares a stack's resources; returns what it trains (if it trains) and what a reviewer should know."""
    module, _ = _MODULES[target]
    return importlib.import_module(f"infra.targets.{module}").declare
