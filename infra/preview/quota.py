"""The quota that a stack's request is counted against. Pure.

Owns which of a row's quotas a tier uses. Refuses to own how much of it a project has: only the project knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import QuotaScope
from infra.preview.purchase import Purchase
from infra.stack_file.cloud_training import Tier


@dataclass(frozen=True)
class QuotaNeed:
    """`name` is None where no source says it. `amount` of `unit` (chips or cores) in each of `places`."""

    name: str | None
    amount: int
    unit: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name or 'unknown'}: {self.amount:,} {self.unit} in {' or '.join(self.places)}"


def of_purchase(purchase: Purchase) -> QuotaNeed:
    """Spot and flex-start use the preemptible quota; what reserved and guaranteed use, no source says."""
    quota = purchase.row.quota(purchase.api)
    if quota is None:
        return QuotaNeed(None, purchase.chips, "chips", purchase.zones)
    name = {Tier.ON_DEMAND: quota.on_demand, Tier.SPOT: quota.spot, Tier.FLEX_START: quota.spot}.get(purchase.tier)
    places = purchase.zones if quota.scope is QuotaScope.ZONE else (purchase.region,)
    return QuotaNeed(name, quota.units * purchase.slices, str(quota.unit), places)
