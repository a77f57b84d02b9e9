"""What a stack costs by the hour and by the run. Pure.

A run whose length the stack says (`max_runtime`) costs at most that; one whose length follows from its steps at an
assumed speed costs about that, and every place that shows it says which.

Owns the arithmetic and its words. Refuses to own prices (prices.py), limits (limits.py) and to guess: what nobody says
is None. Billing ends when the slices are deleted, not when training ends: a run costs this if `pulumi destroy` follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from infra import durations
from infra.preview import prices
from infra.stack_file.terms import Terms
from training.run_spec import RunSpec

# The share of the peak that a run reaches. Assumed, not measured: no slice was ever used, and a slower run costs more.
ASSUMED_MFU = 0.20


class RunCost(StrEnum):
    """What the cost of a run is; the value is the word that stands before the amount."""

    BOUND = "at most"
    ESTIMATE = "about"
    UNKNOWN = "unknown"


def usd(amount: float | None) -> str:
    return RunCost.UNKNOWN if amount is None else f"${amount:,.2f}"


@dataclass(frozen=True)
class Cost:
    """US dollars; None is unknown. `price_by` and `hours_by` say where the numbers are from, or what would give one.

    `hours_assumed`: they follow from a speed that nobody has measured.
    """

    chips: int
    usd_per_chip_hour: float | None
    price_by: str
    hours: float | None
    hours_by: str
    hours_assumed: bool

    @property
    def usd_per_hour(self) -> float | None:
        return None if self.usd_per_chip_hour is None else self.chips * self.usd_per_chip_hour

    @property
    def usd_per_run(self) -> float | None:
        hourly = self.usd_per_hour
        return None if hourly is None or self.hours is None else hourly * self.hours

    @property
    def run(self) -> RunCost:
        if self.usd_per_run is None:
            return RunCost.UNKNOWN
        return RunCost.ESTIMATE if self.hours_assumed else RunCost.BOUND

    @property
    def run_text(self) -> str:
        """`about $25.70`, `at most $864.00` or `unknown`: in these words everywhere."""
        return self.run if self.run is RunCost.UNKNOWN else f"{self.run} {usd(self.usd_per_run)}"

    @property
    def run_by(self) -> str:
        """What the cost of a run follows from, or what would give it."""
        return self.hours_by if self.usd_per_run is not None else self.why_unknown

    @property
    def why_unknown(self) -> str:
        """What would give the cost of a run, or of an hour, that is not known."""
        return self.price_by if self.usd_per_hour is None else self.hours_by


def of(settings: Terms, spec: RunSpec) -> Cost:
    price = prices.of(settings)
    hours, hours_by = _hours(settings, spec)
    return Cost(settings.chips, price.usd, price.by, hours, hours_by, hours_assumed=not settings.max_runtime)


def _hours(settings: Terms, spec: RunSpec) -> tuple[float | None, str]:
    if settings.max_runtime:
        return settings.max_runtime / 3600, f"max_runtime {durations.text(settings.max_runtime)}"
    parameters = active_parameters(str(spec.maxtext.get("model_name", "")))
    peak = settings.row.peak_bf16_tflops
    if parameters is None or peak is None:
        return None, "steps of a model of unknown size; set max_runtime"
    # 6 FLOPs per parameter and token; attention adds little at these lengths and is left out.
    seconds = 6 * parameters * spec.tokens_per_step / (settings.row.chips * spec.slices * peak * 1e12 * ASSUMED_MFU)
    by = f"{spec.steps:,} steps at an assumed {ASSUMED_MFU:.0%} MFU, start-up not counted"
    return spec.steps * seconds / 3600, by


def active_parameters(model: str) -> float | None:
    """Parameters that a token meets, as the model's name says it, or None: `llama2-7b`, `qwen3-235b-a22b`."""
    active = re.search(r"-a(\d+(?:\.\d+)?)b(?:-|$)", model)
    dense = re.search(r"-(?:(\d+)x)?(\d+(?:\.\d+)?)(b|t)(?:-|$)", model)
    if active:
        return float(active[1]) * 1e9
    if not dense:
        return None
    return int(dense[1] or 1) * float(dense[2]) * {"b": 1e9, "t": 1e12}[dense[3]]
