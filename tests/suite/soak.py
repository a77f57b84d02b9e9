"""Whether this is `make soak`, which runs every case, or `make test`, which runs a sample."""

from __future__ import annotations

import os

VARIABLE = "SLIPWAY_SOAK"  # one of those that tests/clean_environment.py keeps
SOAK = bool(os.environ.get(VARIABLE))


def cases(few: int, many: int) -> int:
    """How many random cases a test tries; mark it `sample(1)`, so that the soak knows it."""
    return many if SOAK else few
