"""What a stack costs by the hour and by the run, and the limits that stop it. Pure.

A run whose length the stack says (`max_runtime`) costs at most that; one whose length follows from its steps at an
assumed speed costs about that, and every place that shows it says which.

Owns the arithmetic and its words. Refuses to own prices (infra/hardware.yaml, or the stack's own) and to guess one:
what no source says is None, and stops `up` only where a limit is set. Billing ends when the slices are deleted, not
when training ends: a run's cost is what it is if `pulumi destroy` follows at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from infra import durations
from infra.hardware import Accelerator
from infra.stack_file.cloud_training import Tier
from infra.stack_file.settings import SettingsError
from infra.targets.tpu_vm.settings import TpuVmSettings
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


def of_stack(settings: TpuVmSettings, spec: RunSpec) -> Cost:
    price, said = _price(settings.row, settings.place, settings.tier)
    if settings.price_usd_per_chip_hour is not None:
        price, said = settings.price_usd_per_chip_hour, "price_usd_per_chip_hour of the stack"
    hours, by = _hours(settings, spec)
    return Cost(settings.row.chips * settings.slices, price, said, hours, by, hours_assumed=not settings.max_runtime)


def _price(row: Accelerator, region: str, tier: Tier) -> tuple[float | None, str]:
    unknown = "set price_usd_per_chip_hour"
    if tier in (Tier.RESERVED, Tier.GUARANTEED, Tier.FLEX_START):
        return None, f"no source prices tier {tier}; {unknown}"
    price = row.price(region)
    usd = price and (price.spot_usd if tier is Tier.SPOT else price.on_demand_usd)
    if price is None or usd is None:
        return None, f"no source prices {tier} {row.family} in {region}; {unknown}"
    date = price.source.date or (f"read {price.source.read}" if price.source.read else "date unknown")
    return usd, f"{price.source.title.partition(' catalogs')[0]}, {date}"


def _hours(settings: TpuVmSettings, spec: RunSpec) -> tuple[float | None, str]:
    if settings.max_runtime:
        return settings.max_runtime / 3600, f"max_runtime {durations.text(settings.max_runtime)}"
    parameters = active_parameters(str(spec.maxtext.get("model_name", "")))
    peak = settings.row.peak_bf16_tflops
    if parameters is None or peak is None:
        return None, "steps of a model of unknown size; set max_runtime"
    # 6 FLOPs per parameter and token; attention adds little at these lengths and is left out.
    seconds = 6 * parameters * spec.tokens_per_step / (settings.row.chips * spec.slices * peak * 1e12 * ASSUMED_MFU)
    return (
        spec.steps * seconds / 3600,
        f"{spec.steps:,} steps at an assumed {ASSUMED_MFU:.0%} MFU, start-up not counted",
    )


def active_parameters(model: str) -> float | None:
    """Parameters that a token meets, as the model's name says it, or None: `llama2-7b`, `qwen3-235b-a22b`."""
    active = re.search(r"-a(\d+(?:\.\d+)?)b(?:-|$)", model)
    dense = re.search(r"-(?:(\d+)x)?(\d+(?:\.\d+)?)(b|t)(?:-|$)", model)
    if active:
        return float(active[1]) * 1e9
    if not dense:
        return None
    return int(dense[1] or 1) * float(dense[2]) * {"b": 1e9, "t": 1e12}[dense[3]]


def check_limits(settings: TpuVmSettings, cost: Cost, buying: bool) -> tuple[str, ...]:
    """Raise SettingsError where a limit is passed, or where `buying` cannot tell; else what could not be told."""
    where = f"stacks/Pulumi.{settings.stack}.yaml"
    smaller = "a smaller accelerator, fewer slices"
    if settings.max_chips and cost.chips > settings.max_chips:
        raise SettingsError(
            f"{settings.row.name} x {settings.slices} has {cost.chips:,} chips, max_chips is {settings.max_chips:,} in "
            f"{where}; choose {smaller}, or raise max_chips"
        )
    warnings: list[str] = []
    limits = (
        ("max_usd_per_hour", settings.max_usd_per_hour, cost.usd_per_hour, "an hour", smaller),
        ("max_usd_per_run", settings.max_usd_per_run, cost.usd_per_run, "a run", f"fewer steps, {smaller}"),
    )
    for key, limit, amount, what, levers in limits:
        if limit is None:
            continue
        if amount is None:
            said = f"{key} is {limit:,.2f} in {where}, but what {what} costs is unknown: {cost.why_unknown}"
            if buying:
                raise SettingsError(said)
            warnings.append(f"`up` will refuse: {said}")
        elif amount > limit:
            per_run = what == "a run"
            length = f" x {cost.hours:,.1f} hours ({cost.hours_by})" if per_run else ""
            raise SettingsError(
                f"{what} costs {cost.run_text if per_run else usd(amount)} = {cost.chips:,} chips x "
                f"${cost.usd_per_chip_hour}{length}, {key} is {limit:,.2f} in {where}; choose {levers}"
                f"{_cheaper(settings)}, or raise {key}"
            )
    return tuple(warnings)


def _cheaper(settings: TpuVmSettings) -> str:
    """Levers with their prices, where sources have them."""
    if settings.price_usd_per_chip_hour is not None:
        return ""
    row, found = settings.row, ""
    here, _ = _price(row, settings.place, settings.tier)
    spot, _ = _price(row, settings.place, Tier.SPOT)
    if settings.tier is not Tier.SPOT and spot is not None:
        found += f", tier spot (${spot} per chip)"
    elsewhere = {price.region: _price(row, price.region, settings.tier)[0] for price in row.prices}
    known = {region: usd for region, usd in elsewhere.items() if usd is not None}
    if known and here is not None:
        region = min(known, key=lambda name: known[name])
        if known[region] < here:
            found += f", region {region} (${known[region]} per chip)"
    return found
