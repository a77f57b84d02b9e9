"""The quota that a stack's request is counted against. Pure.

Owns which of a row's quotas a tier uses. Refuses to own how much of it a project has: only the project knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import QuotaScope
from infra.stack_file.cloud_training import CloudTrainingSettings, Tier


@dataclass(frozen=True)
class QuotaNeed:
    """`name` is None where no source says it. `amount` of `unit` (chips or cores) in each of `places`."""

    name: str | None
    amount: int
    unit: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name or 'unknown'}: {self.amount:,} {self.unit} in {' or '.join(self.places)}"


def of_stack(settings: CloudTrainingSettings) -> QuotaNeed:
    """Spot and flex-start use the preemptible quota; what reserved and guaranteed use, no source says."""
    row = settings.row
    quota = row.quota(settings.api)
    if quota is None:
        return QuotaNeed(None, row.chips * settings.slices, "chips", settings.zones)
    name = {Tier.ON_DEMAND: quota.on_demand, Tier.SPOT: quota.spot, Tier.FLEX_START: quota.spot}.get(settings.tier)
    places = settings.zones if quota.scope is QuotaScope.ZONE else (settings.place,)
    return QuotaNeed(name, quota.units * settings.slices, str(quota.unit), places)
