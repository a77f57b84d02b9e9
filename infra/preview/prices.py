"""What a chip costs by the hour, and who says so: the stack itself, else a row of infra/hardware.yaml. Pure.

A new source of prices goes here. Refuses to guess: what no source says is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from infra.hardware import Accelerator
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.terms import Terms
from infra.tiers import Tier


@dataclass(frozen=True)
class ChipPrice:
    """US dollars per chip and hour; `by` is the source, or what would give a price where `usd` is None."""

    usd: float | None
    by: str


def of(settings: Terms) -> ChipPrice:
    if settings.price_usd_per_chip_hour is not None:
        return ChipPrice(settings.price_usd_per_chip_hour, "price_usd_per_chip_hour of the stack")
    regions = settings.regions_in_order if isinstance(settings, CloudTrainingSettings) else ()
    return _dearest(settings, regions) if len(regions) > 1 else listed(settings.row, settings.place, settings.tier)


def _dearest(settings: Terms, regions: tuple[str, ...]) -> ChipPrice:
    """Of several regions, any of which may give its chips; unknown where one is."""
    by_region = {region: listed(settings.row, region, settings.tier) for region in regions}
    if unknown := next((price for price in by_region.values() if price.usd is None), None):
        return unknown
    region, price = max(by_region.items(), key=lambda each: each[1].usd or 0.0)
    return ChipPrice(price.usd, f"{price.by}; {region} is the dearest of its regions")


def listed(row: Accelerator, region: str, tier: Tier) -> ChipPrice:
    """As a list that Google or others publish has it."""
    remedy = "set price_usd_per_chip_hour"
    if tier not in (Tier.ON_DEMAND, Tier.SPOT):
        return ChipPrice(None, f"no source prices tier {tier}; {remedy}")
    price = row.price(region)
    usd = price and (price.spot_usd if tier is Tier.SPOT else price.on_demand_usd)
    if price is None or usd is None:
        there = "" if region == "-" else f" in {region}"
        return ChipPrice(None, f"no source prices {tier} {row.family}{there}; {remedy}")
    date = price.source.date or (f"read {price.source.read}" if price.source.read else "date unknown")
    return ChipPrice(usd, f"{price.source.title.partition(' catalogs')[0]}, {date}")


def cheapest_region(row: Accelerator, tier: Tier) -> tuple[str, float] | None:
    """The region whose listed price is lowest, with its dollars per chip and hour."""
    by_region = ((price.region, listed(row, price.region, tier).usd) for price in row.prices)
    priced = [(region, usd) for region, usd in by_region if usd is not None]
    return min(priced, key=itemgetter(1), default=None)
