"""What a stack may take at most, in chips and dollars: a limit that is passed stops preview and `up`. Pure.

A new limit goes here, also one for all stacks of an organisation. Refuses to own the figures (cost.py, prices.py).
"""

from __future__ import annotations

from infra.preview import prices
from infra.preview.cost import Cost, usd
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import Terms, where
from infra.tiers import Tier

_SMALLER = "a smaller accelerator, fewer slices"


def check(settings: Terms, cost: Cost, buying: bool) -> tuple[str, ...]:
    """Raise SettingsError where a limit is passed, or where `buying` cannot tell; else what could not be told."""
    file = where(settings)
    if settings.max_chips and cost.chips > settings.max_chips:
        raise SettingsError(
            f"{settings.row.name} x {settings.slices} has {cost.chips:,} chips, max_chips is {settings.max_chips:,} in "
            f"{file}; choose {_SMALLER}, or raise max_chips"
        )
    hourly = f"{cost.chips:,} chips x ${cost.usd_per_chip_hour}"
    hour = f"{usd(cost.usd_per_hour)} = {hourly}"
    run = f"{cost.run_text} = {hourly} x {cost.hours or 0:,.1f} hours ({cost.hours_by})"
    dollars = (
        ("max_usd_per_hour", settings.max_usd_per_hour, "an hour", cost.usd_per_hour, hour, _SMALLER),
        ("max_usd_per_run", settings.max_usd_per_run, "a run", cost.usd_per_run, run, f"fewer steps, {_SMALLER}"),
    )
    warnings: list[str] = []
    for key, at_most, what, amount, figures, levers in dollars:
        if at_most is None:
            continue
        states = f"{key} is {at_most:,.2f} in {file}"
        if amount is None:
            problem = f"{states}, but what {what} costs is unknown: {cost.why_unknown}"
            if buying:
                raise SettingsError(problem)
            warnings.append(f"`up` will refuse: {problem}")
        elif amount > at_most:
            more = f"choose {levers}{_cheaper(settings)}, or raise {key}"
            raise SettingsError(f"{what} costs {figures}, {states}; {more}")
    return tuple(warnings)


def _cheaper(settings: Terms) -> str:
    """Another tier and another region with their prices, where sources have them."""
    if settings.price_usd_per_chip_hour is not None:
        return ""
    row, levers = settings.row, ""
    here, spot = (prices.listed(row, settings.place, tier).usd for tier in (settings.tier, Tier.SPOT))
    if settings.tier is not Tier.SPOT and spot is not None:
        levers += f", tier spot (${spot} per chip)"
    cheapest = prices.cheapest_region(row, settings.tier)
    if cheapest and here is not None and cheapest[1] < here:
        levers += f", region {cheapest[0]} (${cheapest[1]} per chip)"
    return levers
