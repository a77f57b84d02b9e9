"""The block that a preview says of a stack before anything is bought. Pure.

Owns which facts are in it and how they read. Refuses to own the facts (infra/preview/cost.py, quota.py, the hardware
table): unknown is printed as unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from infra.preview import cost, quota
from infra.preview.cost import Cost, usd
from infra.preview.fit import lookup, roofline
from infra.preview.fit.compile_request import FitRequest
from infra.preview.fit.roofline import Estimate
from infra.preview.fit.verdict import Verdict
from infra.preview.quota import QuotaNeed
from infra.targets.tpu_vm.settings import TpuVmSettings
from training.run_spec import RunSpec
from training.sharding import resolve_mesh

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fit:
    """The compiler's word, and how fast a step could be at best."""

    verdict: Verdict
    estimate: Estimate | None

    def __str__(self) -> str:
        if not self.verdict.fits:
            said = "does not fit" if self.verdict.fits is False else UNKNOWN
            return f"{said}: {self.verdict.reason}"
        return f"{self.verdict.memory}" + (f"; {self.estimate}" if self.estimate else "")


@dataclass(frozen=True)
class StackReport:
    """Counts over all slices, but `hosts_per_slice` and `chips_per_host`."""

    stack: str
    accelerator: str
    topology: str
    machine: str
    chips: int
    hosts: int
    slices: int
    hosts_per_slice: int
    chips_per_host: int
    mesh: str
    model: str
    run: str
    steps: int
    tokens_per_step: int
    zones: tuple[str, ...]
    tier: str
    cost: Cost
    quota: QuotaNeed
    fit: Fit

    def lines(self) -> tuple[str, ...]:
        """What a terminal shows, one fact a line."""
        size = f"{_count(self.slices, 'slice')} x {_count(self.hosts_per_slice, 'host')} x {self.chips_per_host}"
        return (
            f"{self.stack}: {self.chips:,} chips = {size} ({self.accelerator}, {self.topology}, {self.machine})",
            *(f"  {title:<7} {text}" for title, text in self.facts()),
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        hourly, per_chip = self.cost.usd_per_hour, self.cost.usd_per_chip_hour
        hour = f"{usd(hourly)} = {self.chips:,} chips x {usd_price(per_chip)} ({self.cost.price_by})"
        run = f"{self.cost.run_text} = {self.cost.hours or 0:,.1f} hours ({self.cost.run_by})"
        return (
            ("mesh", self.mesh),
            ("run", f"{self.run}: {self.model}, {self.steps:,} steps of {self.tokens_per_step:,} tokens"),
            ("fit", str(self.fit)),
            ("zones", ", ".join(self.zones) + (" (tried in this order)" if len(self.zones) > 1 else "")),
            ("tier", self.tier),
            ("$/hour", f"{UNKNOWN}: {self.cost.price_by}" if hourly is None else hour),
            ("$/run", f"{UNKNOWN}: {self.cost.why_unknown}" if self.cost.usd_per_run is None else run),
            ("quota", str(self.quota)),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "usd_per_hour": self.cost.usd_per_hour,
            "usd_per_run": self.cost.usd_per_run,
            "usd_per_run_is": self.cost.run,
        }


def of_stack(
    settings: TpuVmSettings, spec: RunSpec, judge: Callable[[FitRequest], Verdict] = lookup.known
) -> StackReport:
    """`judge` says whether the train step fits; by default nothing is compiled for it."""
    row = settings.row
    request = lookup.request_of(settings, spec)
    verdict = judge(request)
    return StackReport(
        stack=settings.stack,
        accelerator=row.name,
        topology=row.topology_text or UNKNOWN,
        machine=row.machine.name if row.machine else UNKNOWN,
        chips=row.chips * settings.slices,
        hosts=spec.hosts,
        slices=settings.slices,
        hosts_per_slice=row.hosts,
        chips_per_host=row.chips_per_host,
        mesh=str(resolve_mesh(spec.maxtext, row.devices, settings.slices)),
        model=request.model,
        run=spec.run_name,
        steps=spec.steps,
        tokens_per_step=spec.tokens_per_step,
        zones=settings.zones,
        tier=str(settings.tier),
        cost=cost.of_stack(settings, spec),
        quota=quota.of_stack(settings),
        fit=Fit(verdict, roofline.estimate(verdict, row, request.remat_policy)),
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def usd_price(amount: float | None) -> str:
    """To the cent, or to four digits where cents would hide them."""
    return usd(amount) if amount is None or round(amount, 2) == amount else f"${amount:.4g}"
