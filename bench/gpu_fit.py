"""What XLA's compiler counts of a step's memory against what a real H200 had in use, over all cases measured there."""

from __future__ import annotations

from bench.record import Figure, figure
from infra.preview.fit import cache
from infra.preview.fit.measurements import MEASURED


def figures() -> list[Figure]:
    """From committed answers and measurements: `slipway fit --judge --ship` and `bench.gpu_step` make them."""
    errors: dict[str, float] = {}
    for measured in MEASURED:
        if measured.peak_gib:
            verdict = cache.find(measured.step.request.key)
            assert verdict and verdict.peak_gib, f"{measured.title}: run slipway fit --judge --ship"
            errors[measured.title] = 100 * (verdict.peak_gib / measured.peak_gib - 1)
    largest = max(errors.values(), key=abs)
    return [
        figure("gpu_fit_memory_error", [abs(largest)], "%", "<= 10", cases=len(errors)),
        figure("gpu_fit_counted_too_low", [-min(errors.values())], "%", "<= 3", cases=len(errors)),
    ]
