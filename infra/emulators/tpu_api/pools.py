"""What requests compete for: capacity of zones, quota of projects, reservations. Unlimited where no limit is set.

Owns limits and the sum of what is taken. Refuses to own who takes it (ledger.py) and what an accelerator is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from infra.hardware import Accelerator, Api, QuotaScope, QuotaUnit, rows
from infra.tiers import Tier

_MOST_SERVING_CHIPS = 8
_ANY_RESERVATION = "/reservations/-"


class QuotaTier(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class ZoneRefusal(StrEnum):
    """How a zone refuses what it cannot give: two at the call, two as the error that an operation ends in."""

    LOCATION_POLICY = "location policy"  # 403 to every call in the zone
    NOT_IN_ZONE = "not in zone"  # 400: the accelerator is not found in the zone
    NO_CAPACITY = "no capacity"  # code 8, where a stockout would keep the request waiting
    NONE_FOR_SALE = "none for sale"  # code 5 to on-demand requests: chips are in reservations only


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
    def is_serving(self) -> bool:
        """Whether it counts against the Serving quota: single-host v5e. Seen for -4 and -8; -1 is our choice."""
        return self.row.family == "v5e" and self.row.chips <= _MOST_SERVING_CHIPS

    @property
    def quota_tier(self) -> QuotaTier:
        """Flex-start counts against the preemptible quota, as its documentation says."""
        return QuotaTier.SPOT if self.tier in (Tier.SPOT, Tier.FLEX_START) else QuotaTier.ON_DEMAND


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


@dataclass(frozen=True)
class Refused:
    """What a zone refuses: an accelerator's family or size, "" all. `stays`: the request stays, FAILED."""

    zone: str
    how: ZoneRefusal
    accelerator: str = ""
    stays: bool = False

    def concerns(self, claim: Claim) -> bool:
        sold_otherwise = self.how is ZoneRefusal.NONE_FOR_SALE and claim.tier not in (Tier.ON_DEMAND, Tier.GUARANTEED)
        named = self.accelerator in ("", claim.row.name, claim.row.family)
        return claim.zone == self.zone and named and not sold_otherwise


@dataclass
class QuotaLimit:
    """Of a project in a zone or a region, in the unit of the hardware table. Reserved chips need none (our choice)."""

    project: str
    place: str
    family: str
    tier: QuotaTier
    units: int
    serving: bool = False  # v5e has a second quota, for single hosts

    def concerns(self, claim: Claim) -> bool:
        return (
            claim.project == self.project
            and self.place in (claim.zone, claim.region)
            and claim.row.family == self.family
            and claim.quota_tier is self.tier
            and claim.is_serving == self.serving
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

    def answers(self, asked: str) -> bool:
        """Whether a request may draw on it: one that names it, any in its zone (`-`), or any at all ("").

        Which projects are in a folder or an organization is not known here: all are (our choice).
        """
        host, _, rest = asked.partition("/locations/")
        own_host, _, own_rest = self.name.partition("/locations/")
        if host.startswith("projects/") and host != own_host:
            return False
        return not asked or rest == own_rest or (rest.endswith(_ANY_RESERVATION) and rest.startswith(f"{self.zone}/"))


@dataclass
class Pools:
    capacities: list[Capacity] = field(default_factory=list[Capacity])
    quotas: list[QuotaLimit] = field(default_factory=list[QuotaLimit])
    reservations: list[Reservation] = field(default_factory=list[Reservation])
    refused: list[Refused] = field(default_factory=list[Refused])

    def set_capacity(self, zone: str, accelerator: str, chips: int | None) -> None:
        others = [limit for limit in self.capacities if (limit.zone, limit.accelerator) != (zone, accelerator)]
        self.capacities = others if chips is None else [*others, Capacity(zone, accelerator, chips)]

    def set_quota(self, project: str, place: str, family: str, tier: QuotaTier, units: int | None) -> None:
        """Sets a limit; for a family with a Serving quota, that too."""
        key = (project, place, family, tier)
        others = [limit for limit in self.quotas if (limit.project, limit.place, limit.family, limit.tier) != key]
        kinds = (False, True) if family == "v5e" else (False,)
        self.quotas = others if units is None else [*others, *(QuotaLimit(*key, units, serving) for serving in kinds)]

    def set_refused(self, zone: str, accelerator: str, how: ZoneRefusal | None, stays: bool) -> None:
        others = [refused for refused in self.refused if (refused.zone, refused.accelerator) != (zone, accelerator)]
        self.refused = others if how is None else [*others, Refused(zone, how, accelerator, stays)]

    def refusal_of(self, claim: Claim) -> Refused | None:
        return next((refused for refused in self.refused if refused.concerns(claim)), None)

    def lacks(self, zone: str, row: Accelerator) -> bool:
        absent = [refused for refused in self.refused if (refused.zone, refused.how) == (zone, ZoneRefusal.NOT_IN_ZONE)]
        return any(refused.accelerator in ("", row.name, row.family) for refused in absent)

    def is_closed(self, zone: str) -> bool:
        return any(refused.zone == zone and refused.how is ZoneRefusal.LOCATION_POLICY for refused in self.refused)

    def set_reservation(self, name: str, family: str, chips: int | None) -> None:
        others = [reservation for reservation in self.reservations if reservation.name != name]
        self.reservations = others if chips is None else [*others, Reservation(name, family, chips)]

    def has_reservation(self, asked: str) -> bool:
        return any(reservation.answers(asked) for reservation in self.reservations)

    def reservation_for(self, claim: Claim, taken: list[Claim]) -> str:
        """The name of a reservation with room; "" is none. A claim that names one gets that or nothing."""
        for reservation in self.reservations:
            is_of_kind = (reservation.family, reservation.zone) == (claim.row.family, claim.zone)
            used = sum(other.chips for other in taken if other.reservation == reservation.name)
            if is_of_kind and reservation.answers(claim.reservation) and used + claim.chips <= reservation.chips:
                return reservation.name
        return ""

    def full(self, claim: Claim, taken: list[Claim]) -> bool:
        """Whether a limit leaves no room for a claim."""
        for limit in self.capacities:
            used = sum(other.chips for other in taken if limit.concerns(other))
            if limit.concerns(claim) and used + claim.chips > limit.chips:
                return True
        return False

    def beyond_quota(self, claim: Claim, taken: list[Claim]) -> QuotaLimit | None:
        """The limit that a claim would go beyond, or None."""
        for limit in self.quotas:
            used = sum(other.quota_units for other in taken if limit.concerns(other))
            if limit.concerns(claim) and used + claim.quota_units > limit.units:
                return limit
        return None


def quota_name(limit: QuotaLimit, claim: Claim) -> str:
    """The name of a quota as the service spells it in its refusals."""
    stated = claim.row.quota(Api.QUEUED_RESOURCE)
    name = (stated.spot if limit.tier is QuotaTier.SPOT else stated.on_demand) if stated else None
    of_region = limit.place == claim.region
    if stated is None or name is None:
        return f"TPU{claim.row.family.upper()}PerProjectPer{'Region' if of_region else 'Zone'}ForTPUAPI"
    return name.replace("PerZone", "PerRegion") if of_region and stated.scope is QuotaScope.ZONE else name


def quota_unit(family: str) -> QuotaUnit:
    """Whether quotas of this family count chips or cores."""
    quotas = (row.quota(Api.QUEUED_RESOURCE) for row in rows(family))
    return next((quota.unit for quota in quotas if quota), QuotaUnit.CHIPS)
