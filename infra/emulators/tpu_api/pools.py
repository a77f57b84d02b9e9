"""What there is to take: capacity of zones, quota of projects, reservations. Unlimited where nothing is set.

Owns limits and the sum of what is taken. Refuses to own who takes it (ledger.py) and what an accelerator is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.emulators.tpu_api.records import Tier
from infra.hardware import Accelerator, Api, QuotaScope, QuotaUnit, find, rows


class QuotaTier(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True)
class Claim:
    """What a request or a node takes or would take."""

    project: str
    zone: str
    row: Accelerator
    tier: Tier
    nodes: int
    reservation: str = ""

    @property
    def chips(self) -> int:
        return self.row.chips * self.nodes

    @property
    def region(self) -> str:
        return self.zone.rpartition("-")[0]

    @property
    def quota_units(self) -> int:
        quota = self.row.quota(Api.QUEUED_RESOURCE)
        return (quota.units if quota else self.row.chips) * self.nodes

    @property
    def quota_tier(self) -> QuotaTier:
        return QuotaTier.SPOT if self.tier is Tier.SPOT else QuotaTier.ON_DEMAND


@dataclass
class Capacity:
    """Chips of a zone for a family or for one of its sizes. Reserved chips are apart from it."""

    zone: str
    accelerator: str
    chips: int

    def concerns(self, claim: Claim) -> bool:
        return (
            claim.zone == self.zone
            and self.accelerator in (claim.row.name, claim.row.family)
            and claim.tier is not Tier.RESERVED
        )


@dataclass
class QuotaLimit:
    """Of a project in a zone or a region, in the unit of the hardware table. Reserved chips need none (our choice)."""

    project: str
    place: str
    family: str
    tier: QuotaTier
    units: int

    def concerns(self, claim: Claim) -> bool:
        return (
            claim.project == self.project
            and self.place in (claim.zone, claim.region)
            and claim.row.family == self.family
            and claim.quota_tier is self.tier
            and claim.tier is not Tier.RESERVED
        )


@dataclass
class Reservation:
    name: str  # projects/P/locations/Z/reservations/R
    family: str
    chips: int

    @property
    def zone(self) -> str:
        return self.name.split("/")[3]


@dataclass
class Pools:
    capacities: list[Capacity] = field(default_factory=list[Capacity])
    quotas: list[QuotaLimit] = field(default_factory=list[QuotaLimit])
    reservations: list[Reservation] = field(default_factory=list[Reservation])

    def set_capacity(self, zone: str, accelerator: str, chips: int | None) -> None:
        kept = [limit for limit in self.capacities if (limit.zone, limit.accelerator) != (zone, accelerator)]
        self.capacities = kept if chips is None else [*kept, Capacity(zone, accelerator, chips)]

    def set_quota(self, project: str, place: str, family: str, tier: QuotaTier, units: int | None) -> None:
        key = (project, place, family, tier)
        kept = [limit for limit in self.quotas if (limit.project, limit.place, limit.family, limit.tier) != key]
        self.quotas = kept if units is None else [*kept, QuotaLimit(*key, units)]

    def set_reservation(self, name: str, family: str, chips: int | None) -> None:
        kept = [reservation for reservation in self.reservations if reservation.name != name]
        self.reservations = kept if chips is None else [*kept, Reservation(name, family, chips)]

    def reservation(self, name: str) -> Reservation | None:
        return next((reservation for reservation in self.reservations if reservation.name == name), None)

    def reservation_for(self, claim: Claim, taken: Iterable[Claim]) -> str:
        """The name of a reservation with room; "" is none. A claim that names one gets that or nothing."""
        taken = list(taken)
        for one in self.reservations:
            if claim.reservation not in ("", one.name) or one.family != claim.row.family or one.zone != claim.zone:
                continue
            used = sum(other.chips for other in taken if other.reservation == one.name)
            if used + claim.chips <= one.chips:
                return one.name
        return ""

    def full(self, claim: Claim, taken: Iterable[Claim]) -> Capacity | None:
        """The limit that has no room."""
        taken = list(taken)
        for limit in self.capacities:
            used = sum(other.chips for other in taken if limit.concerns(other))
            if limit.concerns(claim) and used + claim.chips > limit.chips:
                return limit
        return None

    def beyond_quota(self, claim: Claim, taken: Iterable[Claim]) -> QuotaLimit | None:
        taken = list(taken)
        for limit in self.quotas:
            used = sum(other.quota_units for other in taken if limit.concerns(other))
            if limit.concerns(claim) and used + claim.quota_units > limit.units:
                return limit
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "capacities": [vars(limit).copy() for limit in self.capacities],
            "quotas": [vars(limit).copy() for limit in self.quotas],
            "reservations": [vars(reservation).copy() for reservation in self.reservations],
        }

    @staticmethod
    def from_json(values: dict[str, Any]) -> Pools:
        quotas: list[dict[str, Any]] = [{**limit, "tier": QuotaTier(limit["tier"])} for limit in values["quotas"]]
        return Pools(
            [Capacity(**limit) for limit in values["capacities"]],
            [QuotaLimit(**limit) for limit in quotas],
            [Reservation(**reservation) for reservation in values["reservations"]],
        )


def quota_name(limit: QuotaLimit, claim: Claim) -> str:
    """As the service spells it in its refusals."""
    stated = claim.row.quota(Api.QUEUED_RESOURCE)
    name = (stated.spot if limit.tier is QuotaTier.SPOT else stated.on_demand) if stated else None
    of_region = limit.place == claim.region
    if stated is None or name is None:
        return f"TPU{claim.row.family.upper()}PerProjectPer{'Region' if of_region else 'Zone'}ForTPUAPI"
    return name.replace("PerZone", "PerRegion") if of_region and stated.scope is QuotaScope.ZONE else name


def quota_unit(family: str) -> QuotaUnit:
    """What `units` of a quota of this family counts."""
    for row in rows(family):
        if quota := row.quota(Api.QUEUED_RESOURCE):
            return quota.unit
    return QuotaUnit.CHIPS


def claim_of(project: str, zone: str, accelerator: str, tier: Tier, nodes: int, reservation: str = "") -> Claim:
    return Claim(project, zone, find(accelerator), tier, nodes, reservation)
