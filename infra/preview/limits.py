"""What a stack may take at most, in chips and dollars: a limit that is passed stops preview and `up`. Pure.

A new limit goes here, also one for all stacks of an organisation. Refuses to own the figures (cost.py, prices.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.preview import prices
from infra.preview.cost import Cost, usd
from infra.preview.purchase import Purchase
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import Tier

_SMALLER = "a smaller accelerator, fewer slices"


@dataclass(frozen=True)
class UsdLimit:
    """`key` of the stack says how many dollars `what` may cost; `figures` are what it does cost, as a sum."""

    key: str
    at_most: float | None
    what: str
    amount: float | None
    figures: str
    levers: str


def check(purchase: Purchase, cost: Cost, buying: bool) -> tuple[str, ...]:
    """Raise SettingsError where a limit is passed, or where `buying` cannot tell; else what could not be told."""
    if purchase.max_chips and cost.chips > purchase.max_chips:
        raise SettingsError(
            f"{purchase.row.name} x {purchase.slices} has {cost.chips:,} chips, max_chips is {purchase.max_chips:,} in "
            f"{purchase.file}; choose {_SMALLER}, or raise max_chips"
        )
    warnings: list[str] = []
    for limit in _of_dollars(purchase, cost):
        if limit.at_most is None:
            continue
        states = f"{limit.key} is {limit.at_most:,.2f} in {purchase.file}"
        if limit.amount is None:
            problem = f"{states}, but what {limit.what} costs is unknown: {cost.why_unknown}"
            if buying:
                raise SettingsError(problem)
            warnings.append(f"`up` will refuse: {problem}")
        elif limit.amount > limit.at_most:
            levers = f"choose {limit.levers}{_cheaper(purchase)}, or raise {limit.key}"
            raise SettingsError(f"{limit.what} costs {limit.figures}, {states}; {levers}")
    return tuple(warnings)


def _of_dollars(purchase: Purchase, cost: Cost) -> tuple[UsdLimit, UsdLimit]:
    hourly = f"{cost.chips:,} chips x ${cost.usd_per_chip_hour}"
    hour = f"{usd(cost.usd_per_hour)} = {hourly}"
    run = f"{cost.run_text} = {hourly} x {cost.hours or 0:,.1f} hours ({cost.hours_by})"
    shorter = f"fewer steps, {_SMALLER}"
    return (
        UsdLimit("max_usd_per_hour", purchase.max_usd_per_hour, "an hour", cost.usd_per_hour, hour, _SMALLER),
        UsdLimit("max_usd_per_run", purchase.max_usd_per_run, "a run", cost.usd_per_run, run, shorter),
    )


def _cheaper(purchase: Purchase) -> str:
    """Another tier and another region with their prices, where sources have them."""
    if purchase.price_usd_per_chip_hour is not None:
        return ""
    row, levers = purchase.row, ""
    here, spot = (prices.listed(row, purchase.region, tier).usd for tier in (purchase.tier, Tier.SPOT))
    if purchase.tier is not Tier.SPOT and spot is not None:
        levers += f", tier spot (${spot} per chip)"
    cheapest = prices.cheapest_region(row, purchase.tier)
    if cheapest and here is not None and cheapest[1] < here:
        levers += f", region {cheapest[0]} (${cheapest[1]} per chip)"
    return levers
