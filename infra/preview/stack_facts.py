"""The facts that a preview states of a stack before anything is bought. Pure.

Owns which facts there are and how they read. Refuses to own the figures (cost.py, quota.py, the hardware table):
unknown is printed as unknown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from infra.preview import cost, quota
from infra.preview.cost import Cost, usd
from infra.preview.fit import judge, roofline
from infra.preview.fit.judge import Ask
from infra.preview.fit.roofline import Estimate
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict
from infra.preview.quota import QuotaNeed
from infra.stack_file.settings import Settings
from infra.stack_file.terms import Terms
from training.run_spec import RunSpec
from training.sharding import resolve_mesh

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fit:
    """The word of whoever can tell, and how fast a step could be at best."""

    verdict: FitVerdict
    estimate: Estimate | None

    def __str__(self) -> str:
        return judge.said(self.verdict) + (f"; {self.estimate}" if self.verdict.fits and self.estimate else "")


@dataclass(frozen=True)
class StackFacts:
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
    regions: tuple[str, ...]
    tier: str
    cost: Cost
    quota: QuotaNeed | None
    fit: Fit

    def lines(self) -> tuple[str, ...]:
        """What a terminal shows, one fact a line."""
        size = f"{_count(self.slices, 'slice')} x {_count(self.hosts_per_slice, 'host')} x {self.chips_per_host}"
        return (
            f"{self.stack}: {self.chips:,} chips = {size} ({self.accelerator}, {self.topology}, {self.machine})",
            *(f"  {title:<7} {text}" for title, text in self.titled()),
        )

    def titled(self) -> tuple[tuple[str, str], ...]:
        """What stands below the size, each with its title."""
        hourly, per_chip = self.cost.usd_per_hour, self.cost.usd_per_chip_hour
        hour = f"{usd(hourly)} = {self.chips:,} chips x {usd_price(per_chip)} ({self.cost.price_by})"
        asked = (("zones", self.zones), ("regions", self.regions))
        run = f"{self.cost.run_text} = {self.cost.hours or 0:,.1f} hours ({self.cost.run_by})"
        return (
            ("mesh", self.mesh),
            ("run", f"{self.run}: {self.model}, {self.steps:,} steps of {self.tokens_per_step:,} tokens"),
            ("fit", str(self.fit)),
            *((title, f"{', '.join(names)}{_order(names)}") for title, names in asked if names),
            ("tier", self.tier),
            ("$/hour", f"{UNKNOWN}: {self.cost.price_by}" if hourly is None else hour),
            ("$/run", f"{UNKNOWN}: {self.cost.why_unknown}" if self.cost.usd_per_run is None else run),
            *((("quota", str(self.quota)),) if self.quota else ()),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "usd_per_hour": self.cost.usd_per_hour,
            "usd_per_run": self.cost.usd_per_run,
            "usd_per_run_is": self.cost.run,
        }


def fit_of(settings: Settings, spec: RunSpec, ask: Ask) -> Fit:
    """`ask` has the compiler's word of whether the train step fits."""
    step = TrainStep(settings, spec)
    verdict = judge.verdict(step, ask)
    return Fit(verdict, roofline.estimate(verdict, step.row, step.remat_policy))


def of(settings: Terms, spec: RunSpec, fit: Fit) -> StackFacts:
    row = settings.row
    return StackFacts(
        stack=settings.stack,
        accelerator=row.name,
        topology=row.topology_text or UNKNOWN,
        machine=row.machine.name if row.machine else UNKNOWN,
        chips=settings.chips,
        hosts=spec.hosts,
        slices=settings.slices,
        hosts_per_slice=row.hosts,
        chips_per_host=row.chips_per_host,
        mesh=str(resolve_mesh(spec.maxtext, row.devices, settings.slices)),
        model=fit.verdict.model,
        run=spec.run_name,
        steps=spec.steps,
        tokens_per_step=spec.tokens_per_step,
        zones=quota.zones_of(settings),
        regions=quota.regions_of(settings),
        tier=str(settings.tier),
        cost=cost.of(settings, spec),
        quota=quota.of(settings),
        fit=fit,
    )


def _order(names: tuple[str, ...]) -> str:
    return " (tried in this order)" if len(names) > 1 else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def usd_price(amount: float | None) -> str:
    """To the cent, or to four digits where cents would hide them."""
    return usd(amount) if amount is None or round(amount, 2) == amount else f"${amount:.4g}"
