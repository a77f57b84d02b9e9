"""The hardware table: one frozen row per accelerator, read from hardware.yaml.

Owns names, counts and prices of accelerators. Refuses to own what a stack does with them.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("hardware.yaml")


class UnknownAcceleratorError(ValueError):
    """No row of that name; the message names the nearest."""


@dataclass(frozen=True)
class Accelerator:
    """A row. Counts are per slice; `usd_per_chip_hour` is None where no source says it, never guessed."""

    name: str
    platform: str  # the extra of training/ that its hosts install, and MaxText's `hardware`
    chips: int
    hosts: int
    devices_per_chip: int
    usd_per_chip_hour: float | None
    source: str

    @property
    def devices(self) -> int:
        """JAX devices of a slice."""
        return self.chips * self.devices_per_chip

    @property
    def devices_per_host(self) -> int:
        return self.devices // self.hosts


@cache
def table() -> dict[str, Accelerator]:
    """Every row by name."""
    document: dict[str, Any] = yaml.safe_load(TABLE.read_text())
    return {name: Accelerator(name=name, **row) for name, row in document["rows"].items()}


def find(name: str) -> Accelerator:
    """The row of `name`. Raises UnknownAcceleratorError with the nearest names."""
    rows = table()
    if name in rows:
        return rows[name]
    nearest = difflib.get_close_matches(name, rows, n=2, cutoff=0) or list(rows)
    raise UnknownAcceleratorError(
        f"accelerator '{name}' is not in infra/hardware.yaml; nearest: {', '.join(nearest)}. add a row or fix the stack"
    )
