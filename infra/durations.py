"""Lengths of time as people write them: `90s`, `45m`, `24h`, `7d`. Pure."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int:
    """Raises ValueError for what is no length of time above 0."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})\s*([smhd])", text.strip())
    if not found:
        raise ValueError("no length of time; write a whole number and s, m, h or d, like 90m, 24h or 7d")
    return int(found[1]) * _SECONDS[found[2]]


def text(total: float) -> str:
    """`24h`, `7d`, `90m`: in the largest unit that leaves nothing over, else hours with one digit."""
    for unit, size in reversed(_SECONDS.items()):
        if total >= size and total % size == 0:
            return f"{int(total // size)}{unit}"
    return f"{total / 3600:.1f}h"
