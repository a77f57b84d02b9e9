"""On which terms a zone gives its chips: one word each, for stack files, prices, quotas and the provider."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    GUARANTEED = "guaranteed"
    FLEX_START = "flex-start"  # v2alpha1's; the slice is taken back after max_runtime
