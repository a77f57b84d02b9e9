"""Whether a train step fits a slice, as the compiler said it. Pure.

Owns the verdict's fields and its JSON. lookup.py fetches it; roofline.py says how fast such a step could be.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any


class VerdictError(ValueError):
    """A file does not hold a verdict of this version, or not the one asked for."""


@dataclass(frozen=True)
class Traffic:
    """GiB that each device sends in a step along a mesh axis, over `ici` or `dcn`."""

    network: str
    axis: str
    operation: str
    gib: float


@dataclass(frozen=True)
class FitVerdict:
    """HBM in GiB per device. FLOPs are the model's, per device and step, by MaxText's formula.

    `fits` is None where nobody knows, and `reason` says why. Where it does not fit,
    `reason` is a sentence, `keys` are those of the stack to change, and `peak_gib` is what it would take.
    """

    key: str
    topology: str
    slices: int
    model: str
    fits: bool | None
    reason: str = ""
    keys: tuple[str, ...] = ()
    hbm_gib: float | None = None
    peak_gib: float | None = None
    argument_gib: float | None = None
    temp_gib: float | None = None
    compile_s: float | None = None
    tflops_per_device: float | None = None
    traffic: tuple[Traffic, ...] = ()

    @property
    def share(self) -> float | None:
        """Of the HBM that the compiler sees."""
        return self.peak_gib / self.hbm_gib if self.peak_gib and self.hbm_gib else None

    @property
    def memory(self) -> str:
        """`7.1 of 31.24 GiB HBM (23%)`."""
        if self.peak_gib is None or self.hbm_gib is None or self.share is None:
            return "HBM unknown"
        return f"{self.peak_gib:.2f} of {self.hbm_gib:.2f} GiB HBM ({math.ceil(self.share * 100)}%)"

    def sent(self, network: str) -> float:
        """GiB per device and step."""
        return sum(traffic.gib for traffic in self.traffic if traffic.network == network)


def to_text(verdict: FitVerdict) -> str:
    return json.dumps(asdict(verdict), indent=1) + "\n"


def from_text(text: str, key: str) -> FitVerdict:
    """Raises VerdictError for anything but the verdict of `key`."""
    try:
        values: dict[str, Any] = json.loads(text)
        values |= {"keys": tuple(values["keys"]), "traffic": tuple(Traffic(**each) for each in values["traffic"])}
        verdict = FitVerdict(**values)
    except (ValueError, KeyError, TypeError) as error:
        raise VerdictError(f"no verdict: {error!r}") from None
    if values.keys() != {field.name for field in fields(FitVerdict)} or verdict.key != key:
        raise VerdictError("another version's, or another key's")
    numbers = (verdict.hbm_gib, verdict.peak_gib, verdict.tflops_per_device)
    if verdict.fits not in (True, False) or any(type(number) not in (float, int, type(None)) for number in numbers):
        raise VerdictError("fields of other types")
    if verdict.fits and None in numbers:
        raise VerdictError("a fit without numbers")
    return verdict
