"""The quota that a stack's request is counted against. Pure.

Owns which of a row's quotas a tier uses. Refuses to own how much of it a project has: only the project knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import QuotaScope
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.terms import Terms
from infra.tiers import Tier


@dataclass(frozen=True)
class QuotaNeed:
    """`amount` of `unit` (chips or cores) in each of `places`, of a service's quota.

    `name` is None where no source says it; `dimension` (`key=value`) picks a line of it.
    """

    name: str | None
    amount: int
    unit: str
    places: tuple[str, ...]
    service: str = ""
    dimension: str | None = None

    @property
    def title(self) -> str:
        """Its name, with the line of it that counts."""
        return (self.name or "unknown") + (f" ({self.dimension})" if self.dimension else "")

    def __str__(self) -> str:
        return f"{self.title}: {self.amount:,} {self.unit} in {' or '.join(self.places)}"


def zones_of(settings: Terms) -> tuple[str, ...]:
    """In the order to try them; none outside of Google's cloud, and none where a request is of a region."""
    return settings.zones if isinstance(settings, CloudTrainingSettings) and not settings.regions_in_order else ()


def regions_of(settings: Terms) -> tuple[str, ...]:
    """In the order to try them, where a request is of a region."""
    return settings.regions_in_order if isinstance(settings, CloudTrainingSettings) else ()


def of(settings: Terms) -> QuotaNeed | None:
    """Spot and flex-start use the preemptible quota; what reserved and guaranteed use, no source says.

    None outside of Google's cloud, where nothing is counted.
    """
    zones, regions = zones_of(settings), regions_of(settings)
    if not (zones or regions):
        return None
    quota = settings.row.quota(settings.api)
    if quota is None:
        return QuotaNeed(None, settings.chips, "chips", zones or regions)
    name = {Tier.ON_DEMAND: quota.on_demand, Tier.SPOT: quota.spot, Tier.FLEX_START: quota.spot}.get(settings.tier)
    places = zones if quota.scope is QuotaScope.ZONE else regions or (settings.place,)
    amount = quota.units * settings.slices
    return QuotaNeed(name, amount, str(quota.unit), places, quota.service, quota.dimension if name else None)
