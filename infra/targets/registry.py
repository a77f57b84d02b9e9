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
from typing import TYPE_CHECKING, Any, cast

from infra.targets.about import About

if TYPE_CHECKING:
    from training.run_spec import RunSpec


class Target(StrEnum):
    LOCAL = "local"
    TPU_VM = "tpu-vm"
    FOUNDATION = "foundation"

    @property
    def folder(self) -> str:
        """Its package."""
        return f"{__package__}.{self.value.replace('-', '_')}"


def about(target: str) -> About | None:
    """What the folder's __init__ says of the target; None where no target has that name."""
    if target not in tuple(Target):
        return None
    return cast(About, importlib.import_module(Target(target).folder).ABOUT)


def part(target: Target, name: str) -> ModuleType | None:
    """A module of the target's folder, or None where it has no such part."""
    module = f"{target.folder}.{name}"
    return importlib.import_module(module) if importlib.util.find_spec(module) else None


def required_part(target: Target, name: str) -> ModuleType:
    """As `part`, of a part that every target of its kind has."""
    return importlib.import_module(f"{target.folder}.{name}")


def settings_class(target: Target) -> type[Any]:
    """`settings.SETTINGS`: a frozen pydantic model of the keys that a stack of the target may have."""
    return cast(type[Any], required_part(target, "settings").SETTINGS)


def declare(target: Target) -> Callable[[Any], tuple[RunSpec | None, tuple[str, ...]]]:
    """`declare.declare`: declares a stack's resources.

    It returns what the stack trains (if it trains) and what a reviewer should know.
    """
    return required_part(target, "declare").declare
