"""What a benchmark hands back: a figure, what it should reach, and whether it does."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`reach` reads as a claim (`<= 1.2`), empty for a figure without one, which is then always `ok`.

    `detail` holds `median`, `range` and `n` where a measurement was repeated, and what else explains the value.
    """

    name: str
    value: float
    unit: str
    reach: str = ""
    ok: bool = True
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def figure(name: str, values: Sequence[float], unit: str, reach: str, **detail: Any) -> Figure:
    """The median of repeated measurements, held against `reach`: `>= x`, `<= x` or empty."""
    median = statistics.median(values)
    spread = {"median": median, "range": [min(values), max(values)], "n": len(values)}
    return Figure(name, median, unit, reach, reaches(median, reach), spread | detail)


def reaches(value: float, reach: str) -> bool:
    """Whether `value` keeps the claim."""
    if not reach:
        return True
    sign, _, bound = reach.partition(" ")
    return {">=": value >= float(bound), "<=": value <= float(bound)}[sign]
