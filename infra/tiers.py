"""On which terms a zone gives its chips: one word each, for stack files, prices, quotas and the provider.

And how often each is expected to be interrupted, which decides how often a run saves (training/save_period.py).
"""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    GUARANTEED = "guaranteed"
    FLEX_START = "flex-start"  # v2alpha1's; the slice is taken back after max_runtime


# Hours after which a slice is taken once, for other customers or maintenance. ASSUMPTIONS, nothing here is measured:
# Google publishes no figures, and a zone's change by the hour. A save's interval goes with the root of them only: where
# one is wrong by a factor of four, runs save twice too often or half as often as would be best.
_SLICE_IS_TAKEN_H = {
    Tier.SPOT: 12.0,
    Tier.ON_DEMAND: 30 * 24.0,
    Tier.RESERVED: 30 * 24.0,
    Tier.GUARANTEED: 30 * 24.0,
    Tier.FLEX_START: 30 * 24.0,  # its end after max_runtime is announced, and no surprise
}
# Hours after which a host fails once. Meta's figure of Llama 3 405B, of GPUs and not of TPUs: 419 unexpected
# interruptions in 54 days on 16,384 of them, which are 2,048 hosts (datacenterdynamics.com, read 2026-11-25).
_HOST_FAILS_H = 6300.0
# Hours after which a person's machine is wanted for something else, or closed. An ASSUMPTION.
_OWN_MACHINE_H = 8.0


def interruption_s(tier: Tier | None, slices: int, hosts: int) -> int:
    """Seconds in which one interruption of a run is expected, which any of its hosts ends; no tier: its own machine."""
    if tier is None:
        return round(_OWN_MACHINE_H * 3600)
    return round(3600 / (slices / _SLICE_IS_TAKEN_H[tier] + hosts / _HOST_FAILS_H))
