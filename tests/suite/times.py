"""How long each module of the suite took when it was last measured: `times.json` beside this file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

TIMES = Path(__file__).with_name("times.json")
UNKNOWN_S = 5.0  # a new module, until `make test-times` has measured it


def measured() -> dict[str, float]:
    """Seconds by module."""
    return json.loads(TIMES.read_text())


def by_module(tests: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by module, longest first, from the seconds of tests by name."""
    seconds: dict[str, float] = {}
    for name, took in tests:
        module = name.partition("::")[0]
        seconds[module] = seconds.get(module, 0.0) + took
    return {module: round(took, 1) for module, took in sorted(seconds.items(), key=lambda pair: (-pair[1], pair[0]))}
