"""Projects of the emulated cloud as `slipway doctor` asks about them: each that is named is there.

All that it needs is enabled and granted, until somebody takes it away (google_apis.py). Quotas are those that the TPU
API's lever has set, and unlimited where it has set none. Refuses to own these limits (infra/emulators/tpu_api/).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from infra.emulators.google_apis import EmulatedProject
from infra.emulators.tpu_api import Cloud
from infra.emulators.tpu_api.checks import zones
from infra.emulators.tpu_api.pools import QuotaTier
from infra.hardware import Accelerator, Api, rows

_ENABLED = ("cloudquotas", "compute", "serviceusage", "storage", "tpu")
_UNLIMITED = -1


@dataclass
class CloudProjects(EmulatedProject):
    """`cloud` says what its quotas are."""

    cloud: Cloud = field(kw_only=True)

    def __post_init__(self) -> None:
        self.services = {*_ENABLED}

    def has(self, project: str) -> bool:
        return bool(project)

    def granted(self, asked: list[str]) -> list[str]:
        return [name for name in asked if name not in self.refused]

    def quota_values(self, project: str, name: str) -> dict[str, int] | None:
        if not any(name in _names(row).values() for row in rows("tpu")):
            return None
        regions = dict.fromkeys(zone.rpartition("-")[0] for zone in zones())
        return dict.fromkeys((*zones(), *regions), _UNLIMITED) | self._limits(project, name)

    def _limits(self, project: str, name: str) -> dict[str, int]:
        return {
            limit.place: limit.units
            for limit in self.cloud.ledger.pools.quotas
            if limit.project == project and any(_names(row).get(limit.tier) == name for row in rows(limit.family))
        }


def _names(row: Accelerator) -> dict[QuotaTier, str]:
    """Of the quotas that a slice is counted against, where it is known."""
    quota = row.quota(Api.QUEUED_RESOURCE)
    names = {QuotaTier.ON_DEMAND: quota.on_demand, QuotaTier.SPOT: quota.spot} if quota else {}
    return {tier: name for tier, name in names.items() if name}
