"""How fast a step could be at best: the longest of computing, HBM, ICI and DCN, as if all of them overlapped. Pure.

Owns the arithmetic and the assumptions that are printed with it. What it leaves out, and how far from measurements it
is: docs/fit.md. A bandwidth that no source states is left out and named; an unknown peak gives no estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import Accelerator
from infra.preview.fit.verdict import FitVerdict

_GIB = 2**30
# FLOPs of a step over the model's own: `full` computes every layer's forward pass, a third of it, again. What other
# policies compute again is less and left out.
RECOMPUTED = {"full": 4 / 3}


@dataclass(frozen=True)
class Estimate:
    """Seconds a step takes at least, by what; `unknown` names what no source gives a bandwidth of."""

    seconds: dict[str, float]
    unknown: tuple[str, ...]
    tflops_per_device: float
    peak_tflops_per_device: float

    @property
    def step_s(self) -> float:
        return max(self.seconds.values())

    @property
    def bound(self) -> str:
        """What takes longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def mfu(self) -> float:
        """Of the model's FLOPs, at most."""
        return self.tflops_per_device / (self.step_s * self.peak_tflops_per_device)

    def __str__(self) -> str:
        left_out = f"; no bandwidth known of {', '.join(self.unknown)}" if self.unknown else ""
        return f"step at least {_seconds(self.step_s)} ({self.bound}), MFU at most {self.mfu:.0%}{left_out}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """One line for each bound."""
        return tuple(f"{name} {_seconds(value)}" for name, value in self.seconds.items())


def estimate(verdict: FitVerdict, row: Accelerator, remat_policy: str) -> Estimate | None:
    """None where the verdict has no FLOPs or the accelerator no peak."""
    if not verdict.fits or verdict.tflops_per_device is None or row.peak_bf16_tflops is None:
        return None
    share = 1 / row.devices_per_chip
    peak = row.peak_bf16_tflops * share
    moved = 2 * ((verdict.argument_gib or 0) + (verdict.temp_gib or 0))  # read once, written once
    wanted = {
        "HBM": (moved, _times(row.hbm_gbytes_per_s, share)),
        "ICI": (verdict.sent("ici"), _times(row.ici_gbytes_per_s, share / 2)),  # both directions are in the figure
        "DCN": (verdict.sent("dcn"), _times(row.nic_gbits_per_host, 1 / 8 / row.devices_per_host)),
    }
    seconds = {"compute": verdict.tflops_per_device * RECOMPUTED.get(remat_policy, 1.0) / peak}
    seconds |= {name: gib * _GIB / (speed * 1e9) for name, (gib, speed) in wanted.items() if gib and speed}
    unknown = tuple(name for name, (gib, speed) in wanted.items() if gib and not speed)
    return Estimate(seconds, unknown, verdict.tflops_per_device, peak)


def usd_per_billion_tokens(step_s: float, tokens_per_step: int, usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else usd_per_hour * step_s / 3600 / tokens_per_step * 1e9


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 0.1 else f"{value * 1000:.3g} ms"
