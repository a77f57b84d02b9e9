"""The targets, one line each; each is the folder of its name, and a part of it is imported when somebody asks for it.

The only table that names targets. Owns which parts a folder may have. Refuses to own what is in them.
A stack so costs the imports of its own target only.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from enum import StrEnum
from types import ModuleType
from typing import Any, cast

from training.run_spec import RunSpec


class Target(StrEnum):
    LOCAL = "local"
    TPU_VM = "tpu-vm"
    FOUNDATION = "foundation"

    @property
    def folder(self) -> str:
        """Its package."""
        return f"{__package__}.{self.value.replace('-', '_')}"


def part(target: Target, name: str) -> ModuleType | None:
    """A module of the target's folder, or None where it has no such part."""
    module = f"{target.folder}.{name}"
    return importlib.import_module(module) if importlib.util.find_spec(module) else None


def settings_class(target: Target) -> type[Any]:
    """`settings.SETTINGS`: a frozen pydantic model of the keys that a stack of the target may have."""
    return cast(type[Any], importlib.import_module(f"{target.folder}.settings").SETTINGS)


def declare(target: Target) -> Callable[[Any], tuple[RunSpec | None, tuple[str, ...]]]:
    """`declare.declare`: declares a stack's resources.

    It returns what the stack trains (if it trains) and what a reviewer should know.
    """
    return importlib.import_module(f"{target.folder}.declare").declare
