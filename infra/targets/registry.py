"""The targets, one line each; each is the folder of its name, which says what it offers (contract.py).

The only table that names targets. Refuses to own what is in them: a stack costs the imports of its own target only.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from typing import Any

from infra.targets.contract import PaidContract, TargetContract


class Target(StrEnum):
    LOCAL = "local"
    TPU_VM = "tpu-vm"
    KUBERNETES = "kubernetes"
    GKE_TPU = "gke-tpu"
    GKE_GPU = "gke-gpu"
    VERTEX = "vertex"
    FOUNDATION = "foundation"

    @property
    def folder(self) -> str:
        """Its package."""
        return f"{__package__}.{self.value.replace('-', '_')}"


def of(target: Target) -> TargetContract[Any, Any]:
    return importlib.import_module(target.folder).TARGET


def named(name: str) -> TargetContract[Any, Any] | None:
    """The target of that name; None where there is none."""
    return of(Target(name)) if name in tuple(Target) else None


def paid() -> dict[str, PaidContract[Any, Any]]:
    """Those whose stacks are paid for, by name."""
    return {contract.name: contract for contract in every() if isinstance(contract, PaidContract)}


def every() -> list[TargetContract[Any, Any]]:
    return [of(target) for target in Target]
