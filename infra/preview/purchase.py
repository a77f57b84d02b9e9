"""What a stack will buy, in the same words for every target: a target's plan makes it from its settings. Pure.

Cost, limits, quota, fit and the facts of a preview read this alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import Accelerator, Api
from infra.stack_file import terms
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import Workload
from infra.stack_file.terms import FitCheck, Terms, Tier


@dataclass(frozen=True)
class Purchase:
    """Slices for a workload. Money in US dollars, `max_runtime` and `fit_timeout_s` in seconds.

    A limit that is None limits nothing. `region` is '-' and `zones` are none outside of Google's cloud.
    `price_usd_per_chip_hour` is the stack's own word, above every price list.
    """

    workload: Workload
    api: Api
    tier: Tier
    region: str
    zones: tuple[str, ...]
    fit: FitCheck
    fit_timeout_s: int
    max_runtime: int | None
    price_usd_per_chip_hour: float | None
    max_chips: int | None
    max_usd_per_hour: float | None
    max_usd_per_run: float | None

    @classmethod
    def of(cls, settings: Terms) -> Purchase:
        return cls(
            workload=settings,
            api=settings.api,
            tier=settings.tier,
            region=settings.place,
            zones=settings.zones if isinstance(settings, CloudTrainingSettings) else (),
            fit=settings.fit,
            fit_timeout_s=settings.fit_timeout_s,
            max_runtime=settings.max_runtime,
            price_usd_per_chip_hour=settings.price_usd_per_chip_hour,
            max_chips=settings.max_chips,
            max_usd_per_hour=settings.max_usd_per_hour,
            max_usd_per_run=settings.max_usd_per_run,
        )

    @property
    def row(self) -> Accelerator:
        return self.workload.row

    @property
    def slices(self) -> int:
        return self.workload.slices

    @property
    def chips(self) -> int:
        """Of all slices."""
        return self.row.chips * self.slices

    @property
    def stack(self) -> str:
        return self.workload.stack

    @property
    def file(self) -> str:
        """The stack's file, as sentences name it."""
        return terms.where(self.workload)
